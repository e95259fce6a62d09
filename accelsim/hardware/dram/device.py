"""A DRAM device and its controller as plain data: geometry, timing, mapping, policies, power."""

from __future__ import annotations

from dataclasses import dataclass, field

from accelsim.errors import InputError

FRONT_ENDS = ("unified", "per_bank")
SCHEDULERS = ("frfcfs", "frfcfs_row_hit")
FIELDS = ("channel", "rank", "group", "bank", "column", "row")
MAX_RANKS, MAX_BANKS, MAX_SLOTS = 8, 64, 640  # of one channel; slots hold what waits in its queues

MAX_CLOCKS = 100_000  # of one gap: the kernel orders candidates by gap and age in one 64 bit number


@dataclass(frozen=True, slots=True)
class Geometry:
    """What one channel is made of. `ranks` counts what has timing of its own: ranks, or HBM's pseudo channels.

    `columns` counts transactions in a row (a row holds columns x transaction_bytes bytes). All are powers of two.
    """

    channels: int
    ranks: int
    groups: int  # bank groups of a rank
    banks: int  # banks of a group
    rows: int
    columns: int
    transaction_bytes: int

    @property
    def sizes(self) -> dict[str, int]:
        """How many there are of each address field."""
        counts = (self.channels, self.ranks, self.groups, self.banks, self.columns, self.rows)
        return dict(zip(FIELDS, counts, strict=True))

    @property
    def banks_per_channel(self) -> int:
        return self.ranks * self.groups * self.banks


@dataclass(frozen=True, slots=True)
class Timing:
    """JEDEC parameters in DRAM clocks (t of the standards, without the letter); `clock_ps` is one clock."""

    clock_ps: int
    burst: int  # clocks of one burst on the data bus
    cl: int
    cwl: int
    rcd_rd: int
    rcd_wr: int
    rp: int
    ras: int
    rc: int
    wr: int
    rtp: int
    ccd_s: int
    ccd_l: int
    wtr_s: int
    wtr_l: int
    rrd_s: int
    rrd_l: int
    faw: int
    rfc: int
    refi: int  # 0: no refresh
    read_to_write: int  # clocks the bus idles between a read burst and a write burst
    rank_switch: int = 0  # clocks the bus idles between bursts of two ranks
    rank_read_to_write: int | None = None  # from a read to a write of another rank; None: as within the rank
    rp_all: int | None = None  # after a precharge of all banks; None: rp
    ppd: int = 0  # between precharges of one rank
    act_clocks: int = 1  # clocks an activate takes on the command bus
    burst_long: int | None = None  # burst counted by wtr_l (LPDDR5); None: burst
    aad: int = 0  # LPDDR5: an activate is two commands, the second within `aad` clocks; 0: one command
    wck_post: int = 0  # LPDDR5: clocks the data clock runs on after a burst

    @property
    def read_latency(self) -> int:
        """Clocks from the read command to its last datum."""
        return self.cl + self.burst

    @property
    def write_latency(self) -> int:
        """Clocks from the write command to the end of its burst."""
        return self.cwl + self.burst


@dataclass(frozen=True, slots=True)
class AddressMap:
    """Which address bits name what: (field, bits) from the least bit above the transaction upwards.

    A field may come twice (low and high column bits). `xor`: rank, group and bank bits are xor-ed with successive
    column bits. `row_xor`: the row too, as Ramulator 2.1's MOP4CLXOR does (it splits a row; only to compare with it).
    `channel_xor`: the channel is xor-ed with all higher address bits, so that no power-of-two pitch camps on few.
    """

    order: tuple[tuple[str, int], ...]
    xor: bool = False
    row_xor: bool = False
    channel_xor: bool = False

    def bits(self, name: str) -> int:
        """Width of a field."""
        return sum(width for each, width in self.order if each == name)


@dataclass(frozen=True, slots=True)
class Controller:
    """Policies. `unified` schedules over one read and one write queue, `per_bank` over a queue for each bank.

    unified: `read_queue` and `write_queue` entries; writes are served from more than `write_high` on down to less than
    `write_low` (entries; or while no read waits). per_bank: the same two queues feed bank queues of `bank_queue`
    entries; writes drain when their queue is full, or holds more than `write_idle` while the bank queues are empty.
    """

    front_end: str = "unified"
    scheduler: str = "frfcfs"
    read_queue: int = 32
    write_queue: int = 32
    write_high: float = 25.6
    write_low: float = 6.4
    bank_queue: int = 8
    write_idle: int = 0
    row_hits: int = 4  # per_bank: column commands after which a conflict may close a row that still has hits waiting
    merge_reads: bool = False  # per_bank: a read of an address that is already waiting costs no command
    dual_command: bool = False  # HBM: a row command and a column command in one clock


@dataclass(frozen=True, slots=True)
class Power:
    """Supply voltage (V) and currents (mA) of one device, and devices of a rank, as in a data sheet's IDD table."""

    vdd: float
    idd0: float
    idd2n: float
    idd3n: float
    idd4r: float
    idd4w: float
    idd5ab: float
    devices: int


@dataclass(frozen=True, slots=True)
class Device:
    """Everything the controller kernel needs to know.

    Energy comes from `power`; without it from `energy_pj_per_bit`, an average with all shares in it; without both it
    is not reported.
    """

    name: str
    geometry: Geometry
    timing: Timing
    address_map: AddressMap
    controller: Controller = field(default_factory=Controller)
    power: Power | None = None
    energy_pj_per_bit: float | None = None

    def __post_init__(self) -> None:
        _check(self)

    @property
    def peak_bytes_per_clock(self) -> float:
        """Bytes a DRAM clock that the data buses of all channels carry."""
        buses = self.geometry.ranks if self.timing.act_clocks > 1 else 1  # each pseudo channel has its own
        return self.geometry.channels * buses * self.geometry.transaction_bytes / self.timing.burst


def _check(device: Device) -> None:
    geometry, controller = device.geometry, device.controller
    for name in Geometry.__dataclass_fields__:
        value = getattr(geometry, name)
        if value < 1 or value & (value - 1):
            raise InputError("must be a power of two", where=f"{device.name}.geometry.{name}", value=value)
    banks, per_bank = geometry.banks_per_channel, controller.front_end == "per_bank"
    slots = controller.read_queue + controller.write_queue + banks * (controller.bank_queue if per_bank else 1)
    for name, count, limit in (("ranks", geometry.ranks, MAX_RANKS), ("banks", banks, MAX_BANKS)):
        if count > limit:
            raise InputError(f"a channel may have {limit} {name}", where=f"{device.name}.geometry", value=count)
    if slots > MAX_SLOTS:
        raise InputError(f"a channel's queues may hold {MAX_SLOTS}", where=f"{device.name}.controller", value=slots)
    for name, value, known in (
        ("front_end", controller.front_end, FRONT_ENDS),
        ("scheduler", controller.scheduler, SCHEDULERS),
    ):
        if value not in known:
            raise InputError(
                f"expected one of {', '.join(known)}", where=f"{device.name}.controller.{name}", value=value
            )
    _check_sizes(device)
    _check_map(device)


def _check_sizes(device: Device) -> None:
    """Queues hold something, times are not negative, and the write marks leave room between them."""
    controller = device.controller
    for name in ("read_queue", "write_queue", "bank_queue", "row_hits"):
        if getattr(controller, name) < 1:
            raise InputError(
                "must be 1 or more", where=f"{device.name}.controller.{name}", value=getattr(controller, name)
            )
    if not 0 <= controller.write_low <= controller.write_high < controller.write_queue:
        raise InputError(
            "expected 0 <= write_low <= write_high < write_queue",
            where=f"{device.name}.controller",
            value=(controller.write_low, controller.write_high, controller.write_queue),
        )
    for name in Timing.__dataclass_fields__:
        value = getattr(device.timing, name)
        least = 1 if name in ("clock_ps", "burst", "act_clocks") else 0
        if value is not None and not least <= value <= MAX_CLOCKS:
            raise InputError(f"must be from {least} to {MAX_CLOCKS}", where=f"{device.name}.timing.{name}", value=value)


def _check_map(device: Device) -> None:
    """Each field has as many bits as its size asks for, and only the column comes in two parts."""
    address_map = device.address_map
    for name, size in device.geometry.sizes.items():
        bits, need = address_map.bits(name), size.bit_length() - 1
        parts = [field for field, _ in address_map.order].count(name)
        if bits != need or parts > (2 if name == "column" else 1):
            raise InputError(
                f"the mapping gives {name} {bits} bits in {parts} parts, the geometry needs {need}",
                where=f"{device.name}.address_map",
                value=address_map.order,
                remedy="only the column may have two parts",
            )
