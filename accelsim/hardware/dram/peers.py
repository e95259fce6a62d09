"""Devices as two published simulators describe them: Ramulator 2.1 and DRAMsim3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from accelsim.errors import InputError
from accelsim.hardware.dram.device import AddressMap, Controller, Device, Geometry, Power, Timing

_RAMULATOR_FIELDS = {
    "channel": "channel", "rank": "rank", "pseudochannel": "rank", "bankgroup": "group", "bank": "bank",
    "column": "column", "column_low": "column", "column_high": "column", "row": "row",
}  # fmt: skip


def device_from_oracle(config: Mapping[str, Any]) -> Device:
    """The device of one configuration as recorded from Ramulator 2.1 or DRAMsim3 (`peer` names which).

    Reproduces the peer's controller, including that DRAMsim3 keeps a channel's last eight writes.
    Raises InputError for another peer.
    """
    peer = config.get("peer")
    if peer == "ramulator2":
        return _from_ramulator(config)
    if peer == "dramsim3":
        return _from_dramsim(config)
    raise InputError("unknown simulator", where="peer", value=peer, remedy="expected ramulator2 or dramsim3")


def _from_ramulator(config: Mapping[str, Any]) -> Device:
    organisation, queues = config["org"], config["queues"]
    geometry = Geometry(
        channels=config["channels"],
        ranks=organisation.get("rank", 1) * organisation.get("pseudochannel", 1),
        groups=organisation["bankgroup"],
        banks=organisation["bank"],
        rows=organisation["row"],
        columns=1 << config["column_bits_after_prefetch"],
        transaction_bytes=config["tx_bytes"],
    )
    controller = Controller(
        front_end="unified",
        scheduler={"FRFCFS": "frfcfs", "FRFCFS-RowHit": "frfcfs_row_hit"}[config["scheduler"]],
        read_queue=queues["read"],
        write_queue=queues["write"],
        write_high=queues["wr_high"] * queues["write"],
        write_low=queues["wr_low"] * queues["write"],
        dual_command=bool(config["row_commands"]),
    )
    timing = _ramulator_timing(config)
    return Device(config["name"], geometry, timing, _ramulator_map(config, geometry), controller)


def _ramulator_timing(config: Mapping[str, Any]) -> Timing:
    n = config["timing"]
    burst, lpddr5 = n.get("nBL", n.get("nBL_min")), "nAAD" in n
    many_ranks = config["org"].get("rank", 1) > 1
    return Timing(
        clock_ps=n["tCK_ps"],
        burst=burst,
        cl=n["nCL"],
        cwl=n["nCWL"],
        rcd_rd=n.get("nRCDRD", n.get("nRCD")),
        rcd_wr=n.get("nRCDWR", n.get("nRCD")),
        rp=n["nRP"],
        ras=n["nRAS"],
        rc=n["nRC"],
        wr=n["nWR"],
        rtp=n.get("nRTP", n.get("nRTPL")),
        ccd_s=n["nCCDS"],
        ccd_l=n["nCCDL"],
        wtr_s=n["nWTRS"],
        wtr_l=n["nWTRL"],
        rrd_s=n["nRRDS"],
        rrd_l=n["nRRDL"],
        faw=n["nFAW"],
        rfc=n["nRFC"],
        refi=0 if config["refresh"] == "NoRefresh" else n["nREFI"],
        read_to_write=2,
        rank_switch=n["nCS"] if many_ranks else 0,
        rank_read_to_write=burst + n["nCS"] if many_ranks else None,
        rp_all=n.get("nRPab"),
        ppd=n.get("nPPD", 0),
        act_clocks=config["command_cycles"].get("ACT", 1),
        burst_long=n.get("nBL_max"),
        aad=n["nAAD"] if lpddr5 else 0,
        wck_post=n["nWCKPST"] if lpddr5 else 0,
    )


def _ramulator_map(config: Mapping[str, Any], geometry: Geometry) -> AddressMap:
    mapping = config["address_mapping"]
    order = [(name, width) for name, width in mapping["lsb_to_msb"] if name != "offset"]
    row_bits = geometry.rows.bit_length() - 1
    order = [(_RAMULATOR_FIELDS[name], row_bits if width == "rest" else width) for name, width in order]
    xor = mapping["xor"] or []
    return AddressMap(tuple(order), xor=bool(xor), row_xor=any(text.startswith("row") for text in xor))


def _from_dramsim(config: Mapping[str, Any]) -> Device:
    cfg = config["cfg"]
    geometry = Geometry(
        channels=cfg["channels"],
        ranks=cfg["ranks"],
        groups=cfg["bankgroups"],
        banks=cfg["banks_per_group"],
        rows=cfg["rows"],
        columns=_dramsim_columns(config),
        transaction_bytes=config["tx_bytes"],
    )
    controller = Controller(
        front_end="per_bank",
        read_queue=cfg["trans_queue_size"],
        write_queue=cfg["trans_queue_size"],
        bank_queue=cfg["cmd_queue_size"],
        write_idle=8,
        merge_reads=True,
        dual_command=bool(cfg["hbm_dual_cmd"]),
    )
    return Device(
        config["name"], geometry, _dramsim_timing(config), _dramsim_map(config, geometry), controller,
        _dramsim_power(config),
    )  # fmt: skip


def _dramsim_columns(config: Mapping[str, Any]) -> int:
    cfg = config["cfg"]
    columns = cfg["columns"] * (2 if "HBM" in config["ini"] and "HBM2" not in config["ini"] else 1)
    return int(columns // cfg["BL"])


def _dramsim_timing(config: Mapping[str, Any]) -> Timing:
    c = config["cfg"]
    split_rcd = "HBM" in config["ini"] or "GDDR" in config["ini"]
    grouped = c["bankgroups"] > 1
    return Timing(
        clock_ps=round(c["tCK"] * 1000),
        burst=c["burst_cycle"],
        cl=c["CL"] + c["AL"],
        cwl=c["CWL"] + c["AL"],
        rcd_rd=(c["tRCDRD"] if split_rcd else c["tRCD"]) - c["AL"],
        rcd_wr=(c["tRCDWR"] if split_rcd else c["tRCD"]) - c["AL"],
        rp=c["tRP"],
        ras=c["tRAS"],
        rc=c["tRC"],
        wr=c["tWR"],
        rtp=c["AL"] + c["tRTP"],
        ccd_s=c["tCCD_S"],
        ccd_l=c["tCCD_L"] if grouped else c["tCCD_S"],
        wtr_s=c["tWTR_S"],
        wtr_l=c["tWTR_L"] if grouped else c["tWTR_S"],
        rrd_s=c["tRRD_S"],
        rrd_l=c["tRRD_L"] if grouped else c["tRRD_S"],
        faw=c["tFAW"],
        rfc=c["tRFC"],
        refi=c["tREFI"],
        read_to_write=c["tRTRS"],
        rank_switch=c["tRTRS"],
        ppd=c["tPPD"] if "GDDR" in config["ini"] or "LPDDR4" in config["ini"] else 0,
    )


def _dramsim_map(config: Mapping[str, Any], geometry: Geometry) -> AddressMap:
    names = {"ch": "channel", "ra": "rank", "bg": "group", "ba": "bank", "ro": "row", "co": "column"}
    sizes = {
        "channel": geometry.channels, "rank": geometry.ranks, "group": geometry.groups, "bank": geometry.banks,
        "row": geometry.rows, "column": geometry.columns,
    }  # fmt: skip
    text = config["address_mapping"]["string_msb_to_lsb"]
    fields = [names[text[at : at + 2]] for at in range(len(text) - 2, -1, -2)]
    return AddressMap(tuple((name, sizes[name].bit_length() - 1) for name in fields))


def _dramsim_power(config: Mapping[str, Any]) -> Power:
    ini = config["power_ini"]
    currents = {name: float(ini[name.upper()]) for name in ("idd0", "idd2n", "idd3n", "idd4r", "idd4w", "idd5ab")}
    return Power(vdd=float(ini["VDD"]), devices=config["cfg"]["devices_per_rank"], **currents)
