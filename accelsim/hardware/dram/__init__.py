"""DRAM by command: devices, the controller, and what a stream of requests takes."""

from accelsim.hardware.dram.device import AddressMap, Controller, Device, Geometry, Power, Timing
from accelsim.hardware.dram.peers import device_from_oracle
from accelsim.hardware.dram.presets import address_map, preset, preset_names
from accelsim.hardware.dram.requests import DramStats, simulate_requests

__all__ = [
    "AddressMap",
    "Controller",
    "Device",
    "DramStats",
    "Geometry",
    "Power",
    "Timing",
    "address_map",
    "device_from_oracle",
    "preset",
    "preset_names",
    "simulate_requests",
]
