"""GPUs, hosts and Triton's numbers: what follows from two readings, and what values say."""

from __future__ import annotations

from pathlib import Path

import pytest

from deployments.rules.fleet import gpus, hosts, triton_numbers
from deployments.rules.fleet.catalogue import SERIES
from deployments.rules.fleet.gpu_fields import BY_DCGM, FIELDS
from deployments.rules.fleet.gpus import Gpu
from deployments.rules.fleet.hosts import Host
from deployments.rules.fleet.machine_series import Level, level_of
from deployments.rules.fleet.triton_numbers import TritonVersion
from tests.adapters.dcgm_double import USUAL

ROOT = Path(__file__).resolve().parents[2]


def test_there_are_27_fields_each_with_a_number_a_series_and_words() -> None:
    assert len(FIELDS) == 27
    assert len({field.number for field in FIELDS}) == 27
    assert len({field.series for field in FIELDS}) == 27
    assert all(field.title and field.meaning and field.why for field in FIELDS)
    # Numbers as in dcgm_fields.h, written down here a second time.
    assert {BY_DCGM[name].number for name in USUAL if name in BY_DCGM} == {
        100, 101, 112, 140, 150, 155, 156, 202, 203, 204, 230, 240, 241, 251, 252,
        310, 311, 393, 395, 449, 1001, 1004, 1005, 1009, 1010, 1011, 1012,
    }  # fmt: skip


def usual(**changes: float) -> Gpu:
    return Gpu("GPU-0", "GPU-1", "NVIDIA A100-SXM4-80GB", raw={**USUAL, **changes})


def test_a_gpus_values_are_in_our_units() -> None:
    values = gpus.values_of(usual(), None, 0)
    assert values["gpu_memory_used_bytes"] == 30_000 * 1024 * 1024
    assert values["gpu_energy_joules"] == 7_200
    assert values["gpu_tensor_active_percent"] == pytest.approx(42)
    assert values["gpu_memory_total_bytes"] == 81_920 * 1024 * 1024
    assert values["gpu_memory_used_percent"] == pytest.approx(30_000 / 81_920 * 100)
    # 60 + 62 GB/s of the 600 GB/s that an A100 has.
    assert values["gpu_nvlink_utilization_percent"] == pytest.approx(122 / 600 * 100)
    assert values["gpu_nvlink_bytes_per_second"] == 120_000 * 1024 * 1000
    # Counters have no rate before the second reading.
    assert "gpu_thermal_throttled_percent" not in values
    assert "gpu_pcie_utilization_percent" not in values


def test_what_slows_a_gpu_down_is_a_share_of_time() -> None:
    later = usual(
        DCGM_FI_DEV_THERMAL_VIOLATION=500_000_000,
        DCGM_FI_DEV_PCIE_REPLAY_COUNTER=3,
        DCGM_FI_DEV_CLOCK_THROTTLE_REASONS=0x20,
    )
    values = gpus.values_of(later, usual(), 2.0)
    assert values["gpu_thermal_throttled_percent"] == pytest.approx(25)
    assert values["gpu_power_throttled_percent"] == 0
    assert values["gpu_pcie_replays_per_minute"] == pytest.approx(30)
    assert values["gpu_slowed_percent"] == 100
    assert gpus.reasons_of(0x20) == ["heat"]
    # Idle clocks are no trouble.
    idle = gpus.values_of(usual(DCGM_FI_DEV_CLOCK_THROTTLE_REASONS=1), None, 0)
    assert idle["gpu_slowed_percent"] == 0


def test_a_counter_that_fell_and_another_card_have_no_rate() -> None:
    before = usual(DCGM_FI_DEV_THERMAL_VIOLATION=9e9)
    assert "gpu_thermal_throttled_percent" not in gpus.values_of(usual(), before, 2.0)
    other = Gpu("GPU-0", "GPU-2", raw=before.raw)
    assert "gpu_thermal_throttled_percent" not in gpus.values_of(other, usual(), 2.0)


def test_a_field_by_its_new_name_and_one_without_sensor() -> None:
    raw = {"DCGM_FI_DEV_CLOCKS_EVENT_REASONS": 4.0, "DCGM_FI_DEV_MEMORY_TEMP": 0.0}
    values = gpus.values_of(Gpu("GPU-0", raw=raw), None, 0)
    assert values == {"gpu_throttle_reasons": 4.0, "gpu_slowed_percent": 100.0}


@pytest.mark.parametrize(
    ("model", "speed"),
    [
        ("NVIDIA A100-SXM4-80GB", 600e9),
        ("NVIDIA H100 80GB HBM3", 900e9),
        ("NVIDIA H100 PCIe", 600e9),
        ("NVIDIA A10", 0.0),
        ("NVIDIA L40S", 0.0),
        ("Tesla V100-SXM2-16GB", 300e9),
        ("NVIDIA RTX A6000", 112.5e9),
        ("", 0.0),
    ],
)
def test_the_speed_of_nvlink_is_that_of_the_card(model: str, speed: float) -> None:
    assert gpus.nvlink_speed(model) == speed


@pytest.mark.parametrize(
    ("series", "value", "level"),
    [
        ("gpu_temperature_celsius", 80, Level.GOOD),
        ("gpu_temperature_celsius", 80.1, Level.WARN),
        ("gpu_temperature_celsius", 88.1, Level.BAD),
        ("gpu_memory_free_bytes", 2 * 1024**3, Level.GOOD),
        ("gpu_memory_free_bytes", 1024**3 - 1, Level.WARN),
        ("gpu_memory_free_bytes", 1, Level.BAD),
        ("gpu_xid_error", 0, Level.GOOD),
        ("gpu_xid_error", 31, Level.WARN),
        ("gpu_xid_error", 79, Level.BAD),
        ("gpu_ecc_double_bit_errors", 1, Level.BAD),
        ("gpu_power_watts", 700, Level.GOOD),
        ("host_cpu_percent", 98, Level.BAD),
    ],
)
def test_limits_say_whether_somebody_should_look(series: str, value: float, level: Level) -> None:
    assert level_of(SERIES[series], value) is level


def test_a_hosts_values_need_two_readings_for_what_grows() -> None:
    first = Host(2, 3.0, 100.0, 400.0, 1000.0, 250.0, 500.0, 50.0, 10_000.0, 5_000.0)
    second = Host(2, 3.0, 150.0, 500.0, 1000.0, 250.0, 500.0, 50.0, 30_000.0, 4_000.0)
    once = hosts.values_of(first, None, 0)
    assert once["host_memory_used_percent"] == 75
    assert once["host_disk_used_percent"] == 90
    assert once["host_load_per_core"] == 1.5
    assert "host_cpu_percent" not in once
    twice = hosts.values_of(second, first, 2.0)
    assert twice["host_cpu_percent"] == 50
    assert twice["host_network_received_bytes_per_second"] == 10_000
    # The counter began anew: not known, and not negative.
    assert "host_network_sent_bytes_per_second" not in twice


def test_a_machine_that_tells_nothing_has_no_values() -> None:
    assert hosts.values_of(Host(), Host(), 2.0) == {}


def version(**totals: float) -> TritonVersion:
    return TritonVersion(**{"queue": {0.95: 2000.0}, "compute": {0.95: 7000.0}, **totals})  # type: ignore[arg-type]


def test_a_versions_values_are_of_the_time_between_two_readings() -> None:
    before = version(requests=100, inferences=100, executions=50, queue_us=1000, compute_us=5000)
    now = version(
        requests=160, failures=4, inferences=180, executions=60, queue_us=61_000,
        compute_us=305_000, pending=3, cache_hits=30, cache_misses=10,
    )  # fmt: skip
    values = triton_numbers.values_of(now, before, 2.0)
    assert values["requests_per_second"] == 32
    assert values["failures_per_second"] == 2
    assert values["batch_efficiency"] == 8
    assert values["queue_mean_ms"] == 1
    assert values["compute_mean_ms"] == 5
    assert values["queue_p95_ms"] == 2
    assert values["compute_p95_ms"] == 7
    assert values["cache_hit_percent"] == 75
    assert values["pending_requests"] == 3


def test_without_requests_there_are_no_percentiles_though_triton_tells_old_ones() -> None:
    same = version(requests=100, executions=50)
    values = triton_numbers.values_of(same, same, 2.0)
    assert values == {"requests_per_second": 0.0, "failures_per_second": 0.0}


def test_a_warm_up_alone_makes_no_percentile() -> None:
    loaded, warm = version(), version(requests=1, executions=1, inferences=1)
    assert "compute_p95_ms" not in triton_numbers.values_of(warm, loaded, 2.0)


def test_totals_that_fell_count_from_zero() -> None:
    before, now = version(requests=100, executions=80), version(requests=30, executions=6)
    values = triton_numbers.values_of(now, before, 2.0)
    assert values["requests_per_second"] == 15
    assert values["queue_p95_ms"] == 2


def test_the_page_of_documents_lists_every_field_with_its_number() -> None:
    text = (ROOT / "docs" / "machines.md").read_text()
    for field in FIELDS:
        assert f"| {field.number} | `{field.dcgm}` | `{field.series}` |" in text
