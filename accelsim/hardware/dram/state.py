"""The controller's state as record arrays, one set for all channels, and the numbers that never change (RULES).

A request waits in a slot of its channel's pool. Slots are linked into lists, three for each bank: reads, writes, and
a third that the per-bank front-end uses as the bank's command queue. `occupied` names the banks whose list is not
empty.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accelsim.hardware.dram.device import FRONT_ENDS, MAX_BANKS, MAX_RANKS, MAX_SLOTS, SCHEDULERS, Device
from accelsim.hardware.dram.mapping import mapping_record

Int64 = NDArray[np.int64]

NEVER = 2**62  # a time that does not come
NOBODY = -1
READ, WRITE, BANK_QUEUE = 0, 1, 2  # kinds of list; of the unified front-end the third names the banks with a request
ACT, PRE, RD, WR, PREA, REF, ACTIVE = 0, 1, 2, 3, 4, 5, 6  # commands; ACTIVE: RD or WR of the request at the bank
COLUMN, ROW = 0, 1  # plans: the next column command and the next row command
REFUSED, QUEUED, ANSWERED, MERGED = 0, 1, 2, 3  # what became of an offered request; ANSWERED: no command is needed
CLOSED = -1  # no row is open
FILTER = 512  # entries of a channel's filter of waiting addresses


def _integers(text: str) -> np.dtype[Any]:
    return np.dtype([(name, "i8") for name in text.split()])


# Least clocks between two commands, and sizes and policies. The name gives level, first command, second command.
RULES = _integers(
    "bank_act_act bank_act_rd bank_act_wr bank_act_pre bank_pre_act bank_rd_pre bank_wr_pre "
    "group_act_act group_rd_rd group_wr_wr group_wr_rd "
    "rank_act_act rank_four_act rank_rd_rd rank_wr_wr rank_rd_wr rank_wr_rd rank_pre_pre "
    "rank_act_prea rank_rd_prea rank_wr_prea rank_prea_act rank_act_ref rank_pre_ref rank_ref_act "
    "other_rd_rd other_rd_wr other_wr_rd other_wr_wr "
    "read_latency write_latency act_clocks aad wck_read wck_write refresh_interval "
    "ranks groups banks_per_group banks read_queue write_queue write_high write_low bank_queue write_idle "
    "row_hits merge_reads dual_command row_hit_first per_bank burst shared_bus"
)

# `prea_at`, `ref_at`: the first clock at which PREA, REF may issue. `last_four`: a ring of activates. `bus_free`: end
# of the last burst on the data bus; where ranks share one, it stands with rank 0.
RANK = np.dtype(
    [*_integers("prea_at ref_at oldest open active_since active_clocks bus_free").descr, ("last_four", "i8", (4,))]
)
BANK = _integers("row hits active")  # open row, column commands since its activate, slot of the request at the bank
LIST = _integers("head tail count place")
SLOT = np.dtype(
    [*_integers("next row key arrive order owner merged merged_arrive").descr, ("write", "u4"), ("unused", "u4")]
)
PLAN = _integers("at command bank kind order")

# A channel with all its parts, of fixed size: a kernel is handed one pointer, and no array to count references to.
CHANNEL = np.dtype(
    [
        *_integers(
            # `next`: the next clock at which the channel may do anything; `offered`: when it last took a request of a
            # DMA queue; `free`: first free slot; `queued`: requests in bank queues; `order`: requests so far
            "next offered reads writes queued free order write_mode draining war refresh_at refresh_rank "
            "refresh_waiting row_bus round_robin act2_deadline forced wck_expiry "
            "act pre prea rd wr ref act2 cas_rd cas_wr forwarded coalesced merged "
            "latency_sum read_count last_read last_write overlaps"
        ).descr,
        ("ranks", RANK, (MAX_RANKS,)),
        ("banks", BANK, (MAX_BANKS,)),
        ("bank_at", "i8", (4, MAX_BANKS)),  # the first clock at which ACT, PRE, RD, WR may issue, for a bank and
        ("rank_at", "i8", (4, MAX_RANKS)),  # for a rank
        ("rank", "u1", (MAX_BANKS,)),  # of each bank
        ("group", "u1", (MAX_BANKS,)),  # the first bank of each bank's group
        ("lists", LIST, (3, MAX_BANKS)),  # by kind: READ, WRITE, BANK_QUEUE
        ("first_hit", "i8", (3, MAX_BANKS)),  # of each list, the `order` of the first request for the open row,
        ("first_miss", "i8", (3, MAX_BANKS)),  # and of the first one for another row; NEVER: none
        ("occupied_count", "i8", (3,)),
        ("occupied", "u1", (3, MAX_BANKS)),  # banks whose list is not empty
        ("plans", PLAN, (2,)),  # the column and the row command that issue next if nothing arrives before
        # Unified front-end: which of ACT and PRE a bank needs next, and the key of its oldest miss if a candidate.
        ("row_command", "u1", (MAX_BANKS,)),
        ("miss_key", "i8", (2, MAX_BANKS)),
        ("filters", "i4", (2, FILTER)),  # waiting reads and writes by a hash of the address
        ("slots", SLOT, (MAX_SLOTS,)),
    ]
)


class State(NamedTuple):
    """The numbers that never change, and the channels."""

    rules: Any  # [1] RULES
    mapping: Any  # [1] MAPPING
    channels: Any  # [c] CHANNEL
    per_bank: int | None  # the front-end, in a form that Numba compiles for: None is the unified one


def new_state(device: Device) -> State:
    """The state at clock 0: all rows closed, all queues empty."""
    channels = np.zeros(device.geometry.channels, CHANNEL)
    _initialise(channels, device)
    rules = rules_record(device)
    return State(rules, mapping_record(device), channels.view(np.recarray), int(rules[0].per_bank) or None)


def _initialise(channels: NDArray[Any], device: Device) -> None:
    geometry = device.geometry
    slots, banks, ranks = channels["slots"], channels["banks"], channels["ranks"]
    slots["next"] = np.arange(1, MAX_SLOTS + 1)
    for name in ("offered", "last_read", "last_write"):
        channels[name] = NOBODY
    per_rank = device.timing.refi if device.controller.front_end == "unified" else device.timing.refi // geometry.ranks
    channels["refresh_at"] = channels["next"] = per_rank if device.timing.refi else NEVER
    banks["row"], banks["active"] = CLOSED, NOBODY
    numbers = np.arange(MAX_BANKS)
    channels["group"] = numbers - numbers % geometry.banks
    channels["rank"] = numbers // (geometry.groups * geometry.banks)
    channels["lists"]["head"] = channels["lists"]["tail"] = NOBODY
    channels["plans"]["at"] = NOBODY
    channels["first_hit"] = channels["first_miss"] = NEVER
    ranks["last_four"] = -NEVER


def rules_record(device: Device) -> Any:
    """[1] RULES of a device: each gap from its JEDEC parameters."""
    record = np.zeros(1, RULES).view(np.recarray)
    for name, value in (_gaps(device) | _policies(device)).items():
        record[name] = value
    return record


def _gaps(device: Device) -> dict[str, int]:
    t = device.timing
    extra = t.act_clocks - 1  # a gap from an activate counts from its last clock, one to it ends at its last clock
    read, write = t.cl + t.burst, t.cwl + t.burst
    read_write = read + t.read_to_write - t.cwl
    return {
        "bank_act_act": t.rc,
        "bank_act_rd": t.rcd_rd + extra,
        "bank_act_wr": t.rcd_wr + extra,
        "bank_act_pre": t.ras + extra,
        "bank_pre_act": t.rp - extra,
        "bank_rd_pre": t.rtp,
        "bank_wr_pre": write + t.wr,
        "group_act_act": t.rrd_l,
        "group_rd_rd": max(t.burst, t.ccd_l),
        "group_wr_wr": max(t.burst, t.ccd_l),
        "group_wr_rd": t.cwl + (t.burst if t.burst_long is None else t.burst_long) + t.wtr_l,
        "rank_act_act": t.rrd_s,
        "rank_four_act": t.faw,
        "rank_rd_rd": max(t.burst, t.ccd_s),
        "rank_wr_wr": max(t.burst, t.ccd_s),
        "rank_rd_wr": read_write,
        "rank_wr_rd": write + t.wtr_s,
        "rank_pre_pre": t.ppd,
        "rank_act_prea": t.ras + extra,
        "rank_rd_prea": t.rtp,
        "rank_wr_prea": write + t.wr,
        "rank_prea_act": (t.rp if t.rp_all is None else t.rp_all) - extra,
        "rank_act_ref": t.rc + extra,
        "rank_pre_ref": t.rp,
        "rank_ref_act": t.rfc - extra,
        **_gaps_to_other_ranks(device, read_write),
    }


def _gaps_to_other_ranks(device: Device, read_write: int) -> dict[str, int]:
    t = device.timing
    if t.act_clocks > 1:  # pseudo channels share no data bus
        return {"other_rd_rd": 0, "other_rd_wr": 0, "other_wr_rd": 0, "other_wr_wr": 0}
    return {
        "other_rd_rd": t.burst + t.rank_switch,
        "other_rd_wr": read_write if t.rank_read_to_write is None else t.rank_read_to_write,
        "other_wr_rd": t.cwl + t.burst + t.rank_switch - t.cl,
        "other_wr_wr": t.burst,
    }


def _policies(device: Device) -> dict[str, int]:
    t, geometry, controller = device.timing, device.geometry, device.controller
    unified = controller.front_end == FRONT_ENDS[0]
    return {
        "read_latency": t.read_latency,
        "write_latency": t.write_latency,
        "act_clocks": t.act_clocks,
        "aad": t.aad,
        "wck_read": t.cl + t.burst + t.wck_post,
        "wck_write": t.cwl + t.burst + t.wck_post,
        "refresh_interval": t.refi if unified else t.refi // geometry.ranks,
        "ranks": geometry.ranks,
        "groups": geometry.groups,
        "banks_per_group": geometry.banks,
        "banks": geometry.banks_per_channel,
        "read_queue": controller.read_queue,
        "write_queue": controller.write_queue,
        "write_high": int(controller.write_high),  # more than 25.6 entries are more than 25
        "write_low": -int(-controller.write_low // 1),  # less than 6.4 entries are less than 7
        "bank_queue": controller.bank_queue,
        "write_idle": controller.write_idle,
        "row_hits": controller.row_hits,
        "merge_reads": controller.merge_reads,
        "dual_command": controller.dual_command,
        "row_hit_first": controller.scheduler == SCHEDULERS[1],
        "per_bank": not unified,
        "burst": t.burst,
        "shared_bus": t.act_clocks == 1,  # HBM's pseudo channels have a data bus each
    }
