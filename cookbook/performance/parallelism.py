"""Formulas of working in parallel, gathered: products on a grid, exchanges, fabrics, pipelines, scaling, failures."""

from cookbook.performance.collectives import (
    hierarchical_all_reduce_seconds,
    ring_all_reduce_seconds,
    tree_all_reduce_seconds,
)
from cookbook.performance.data_parallel import (
    amdahl_speedup,
    bucketed_exposed_seconds,
    compressed_bytes,
    gustafson_speedup,
    halving_doubling_seconds,
    hpe_2017_best_workers,
    hpe_2017_data_parallel_seconds,
    in_network_seconds,
    local_sgd_seconds,
    parameter_server_seconds,
    samples_to_target,
    slowest_seconds,
)
from cookbook.performance.fabric import (
    dragonfly_bandwidth,
    nested_all_gather_seconds,
    nested_all_reduce_seconds,
    nested_all_to_all_seconds,
    nested_bisection_bandwidth,
    rail_all_to_all_seconds,
    saturating_bandwidth,
    switch_all_reduce_seconds,
    torus_all_gather_seconds,
    torus_all_reduce_seconds,
    torus_all_to_all_seconds,
    torus_bisection_bandwidth,
)
from cookbook.performance.matmul import (
    hpe_2017_summa_bandwidth,
    replicated_seconds,
    summa_required_bandwidth,
    summa_seconds,
)
from cookbook.performance.pipeline import SCHEDULES, bubble_share, flush_seconds, schedule
from cookbook.performance.reliability import (
    cluster_mtbf_seconds,
    daly_2006_interval_seconds,
    useful_share,
    young_1974_interval_seconds,
)

__all__ = [
    "SCHEDULES", "amdahl_speedup", "bubble_share", "bucketed_exposed_seconds", "cluster_mtbf_seconds",
    "compressed_bytes", "daly_2006_interval_seconds", "dragonfly_bandwidth", "flush_seconds", "gustafson_speedup",
    "halving_doubling_seconds", "hierarchical_all_reduce_seconds", "hpe_2017_best_workers",
    "hpe_2017_data_parallel_seconds", "hpe_2017_summa_bandwidth", "in_network_seconds", "local_sgd_seconds",
    "nested_all_gather_seconds", "nested_all_reduce_seconds", "nested_all_to_all_seconds", "nested_bisection_bandwidth",
    "parameter_server_seconds", "rail_all_to_all_seconds", "replicated_seconds", "ring_all_reduce_seconds",
    "samples_to_target", "saturating_bandwidth", "schedule", "slowest_seconds", "summa_required_bandwidth",
    "summa_seconds", "switch_all_reduce_seconds", "torus_all_gather_seconds", "torus_all_reduce_seconds",
    "torus_all_to_all_seconds", "torus_bisection_bandwidth", "tree_all_reduce_seconds", "useful_share",
    "young_1974_interval_seconds",
]  # fmt: skip
