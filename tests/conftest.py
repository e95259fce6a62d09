"""Shared by all tests: property tests that give the same answer on every run and machine."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "accelsim", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("accelsim")
