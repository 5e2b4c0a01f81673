"""Measured tables: every row is sourced, consistent with itself, and names what the catalogue knows."""

import numpy as np
import pytest

from cookbook import catalog
from cookbook.catalog import tables
from cookbook.catalog.reading import schema

DATA = catalog.data_directory()
TABLES = {
    "training_classic": 3288,
    "training_transformer": 1685,
    "training_out_of_memory": 563,
    "inference": 8218,
    "storage_measured": 574,
    "collectives": 152,
}
# What a run brings out; no prediction may read these.
OUTCOMES = {
    "training_classic": ["value"],
    "training_transformer": ["step_seconds", "tokens_per_s", "reported_flops", "mfu", "hfu", "memory_bytes"],
    "inference": ["value"],
    "storage_measured": ["samples_per_s", "utilisation", "read_bandwidth", "write_bandwidth", "latency", "iops"],
    "collectives": ["bus_bandwidth", "algorithm_bandwidth"],
}
each_table = pytest.mark.parametrize("name", TABLES)


def resolves(kind, name):
    try:
        return catalog.lookup(kind, name)
    except catalog.UnknownName:
        return None


@each_table
def test_every_row_of_the_compilation_is_there(name):
    assert len(catalog.table(name)) == TABLES[name]


@each_table
def test_no_column_is_empty(name):
    frame = catalog.table(name)
    for column in frame.columns:
        assert (frame[column].notna() & (frame[column] != "")).any(), column


@each_table
def test_every_source_has_a_publisher_and_one_row_cites_one(name):
    groups = catalog.table("sources").set_index("key")["source_group"]
    for source in catalog.table(name)["source"].unique():
        assert ";" not in source
        assert groups[source]


@each_table
def test_how_a_value_is_known_names_real_columns_that_are_filled(name):
    columns = {column.name for column in schema(name, DATA).columns}
    for row in tables.raw(name, DATA).records():
        for field in ("derived_fields", "inferred_fields", "recalled_fields"):
            named = [part for part in row.get(field, "").split(";") if part]
            assert set(named) <= columns, (row.get("id"), field, named)
            assert all(row[column] for column in named), (row.get("id"), field, named)
        assert row["how"] == ("mixed" if row.get("recalled_fields") else "measured")


@pytest.mark.parametrize("name", OUTCOMES)
def test_outcomes_are_positive_and_are_called_outcomes(name):
    frame, columns = catalog.table(name), schema(name, DATA)
    for column in OUTCOMES[name]:
        assert (frame[column].dropna() > 0).all(), column
        assert "an outcome" in columns[column].description
    assert frame[OUTCOMES[name]].notna().any(axis=1).all()


@each_table
def test_the_description_says_what_outcomes_are_for(name):
    (description,) = [
        row["description"] for row in tables.read(DATA / "schema" / "_tables.csv").records() if row["table"] == name
    ]
    assert "never take one as an input" in description


@pytest.mark.parametrize("name", ["training_classic", "training_transformer", "training_out_of_memory"])
def test_nodes_make_up_the_devices(name):
    frame = catalog.table(name)
    stated = frame[frame["per_node"].notna()]
    assert (stated["per_node"] <= stated["devices"]).all()
    assert (stated["devices"] % stated["per_node"] == 0).all()


def test_ranks_of_a_collective_are_nodes_times_devices():
    frame = catalog.table("collectives").dropna(subset=["nodes", "per_node", "ranks"])
    assert len(frame) > 100
    assert (frame["nodes"] * frame["per_node"] == frame["ranks"]).all()


def test_bus_bandwidth_follows_from_algorithm_bandwidth():
    """NCCL: an all-reduce moves 2 (n - 1)/n of its payload over each link."""
    frame = catalog.table("collectives").dropna(subset=["algorithm_bandwidth", "ranks"])
    frame = frame[frame["collective"] == "all_reduce"]
    ratio = frame["bus_bandwidth"] / frame["algorithm_bandwidth"] / (2 * (frame["ranks"] - 1) / frame["ranks"])
    assert len(frame) > 20
    assert ratio.between(0.98, 1.02).all()


def test_parallel_sizes_make_up_the_devices():
    frame = catalog.table("training_transformer").dropna(subset=["tp", "pp", "dp", "cp"])
    product = frame["tp"] * frame["pp"] * frame["dp"] * frame["cp"]
    cores = np.where(frame["accelerator"] == "trainium1", 2, 1)
    assert len(frame) > 1000
    assert (product == frame["devices"] * cores).all()


def test_layouts_that_did_not_fit_divide_the_devices():
    frame = catalog.table("training_out_of_memory")
    data_parallel = frame["devices"] / (frame["tp"] * frame["pp"])
    assert (data_parallel % 1 == 0).all()
    assert (frame["global_batch"] % (frame["micro_batch"] * data_parallel) == 0).all()


def test_heads_make_up_the_width_where_they_do_in_the_model():
    for name in ("training_transformer", "training_out_of_memory"):
        frame = catalog.table(name).dropna(subset=["heads", "kv_heads"])
        assert (frame["heads"] % frame["kv_heads"] == 0).all()
        usual = frame[frame["head_dim"].notna() & ~frame["model"].str.contains("qwen|oss|maxtext|gemma", case=False)]
        assert (usual["heads"] * usual["head_dim"] == usual["hidden"]).all()


def test_parameters_follow_from_the_dimensions():
    """Dense decoders: attention, MLP and one or two vocabulary tables, within 6 %, or position tables explain it."""
    frame = catalog.table("training_transformer")
    frame = frame[frame["decoder_layers"].isna() & frame["experts"].isna() & (frame["gated_mlp"] != "")]
    frame = frame.dropna(subset=["layers", "head_dim", "vocab", "parameters", "seq_len"])
    attention = frame["hidden"] * frame["head_dim"] * 2 * (frame["heads"] + frame["kv_heads"])
    mlp = np.where(frame["gated_mlp"] == "yes", 3, 2) * frame["hidden"] * frame["ffn_hidden"]
    body, table = frame["layers"] * (attention + mlp), frame["hidden"] * frame["vocab"]
    positions = frame["hidden"] * frame["seq_len"]
    errors = np.min([abs((body + n * table + p) / frame["parameters"] - 1) for n in (1, 2) for p in (0, positions)], 0)
    assert len(frame) > 900
    assert (errors < 0.06).all(), frame[errors >= 0.06][["id", "model"]]


def test_batches_of_classic_rows_agree():
    frame = catalog.table("training_classic").dropna(subset=["batch_per_device", "global_batch"])
    once = frame["batch_per_device"] * frame["devices"]
    passes = once * frame["grad_accum_steps"].fillna(1)
    agree = np.isclose(frame["global_batch"], once, rtol=1e-3) | np.isclose(frame["global_batch"], passes, rtol=1e-3)
    assert len(frame) > 2500
    assert agree.all(), frame[~agree]["id"].tolist()


def test_batch_length_and_step_time_give_the_tokens_a_second():
    frame = catalog.table("training_transformer")
    frame = frame.dropna(subset=["global_batch", "seq_len", "step_seconds", "tokens_per_s"])
    ratio = frame["global_batch"] * frame["seq_len"] / frame["step_seconds"] / frame["tokens_per_s"]
    assert len(frame) > 1000
    assert ratio.between(0.997, 1.003).all()


def test_batches_of_transformer_rows_are_whole_passes():
    frame = catalog.table("training_transformer").dropna(subset=["micro_batch", "global_batch", "dp"])
    passes = frame["global_batch"] / (frame["micro_batch"] * frame["dp"])
    assert np.isclose(passes, passes.round()).all()


def test_experts_are_stated_together():
    frame = catalog.table("training_transformer")
    stated = frame[["experts", "experts_per_token"]].notna()
    assert (stated["experts"] == stated["experts_per_token"]).all()
    routed = frame[stated["experts"]]
    assert (routed["experts_per_token"] < routed["experts"]).all()
    assert (routed["active_parameters"] < routed["parameters"]).all()


def test_utilisation_is_a_fraction():
    assert catalog.table("storage_measured")["utilisation"].dropna().between(0, 1).all()
    for column in ("mfu", "hfu"):
        assert catalog.table("training_transformer")[column].dropna().between(0, 1).all()


def test_reported_rates_and_utilisations_name_their_convention():
    frame = catalog.table("training_transformer")
    reported = frame[["reported_flops", "mfu", "hfu"]].notna().any(axis=1)
    bare = frame[reported & (frame["flops_convention"] == "")]
    assert bare["source"].isin(["aws-neuron-docs"]).all(), bare["source"].unique()


def test_precisions_lead_to_formats():
    frame = catalog.table("training_classic")
    assert (frame.loc[frame["precision"] != "fp32_or_tf32", "number_format"] != "").all()
    assert (frame.loc[frame["precision"] == "fp32_or_tf32", "number_format"] == "").all()
    frame = catalog.table("training_transformer")
    assert (frame.loc[frame["quality"] != "C", "number_format"] != "").all()


@pytest.mark.parametrize(("use", "share"), [("core", 1.0), ("aux", 0.84)])
def test_names_of_classic_networks_lead_to_the_zoo(use, share):
    frame = catalog.table("training_classic")
    models = frame.loc[frame["use"] == use, "model"]
    found = models.map({name: resolves("models", name) for name in models.unique()})
    assert found.notna().mean() >= share, sorted(models[found.isna()].unique())


def test_the_name_of_a_network_alone_is_not_trusted_where_the_shape_differs():
    """Detectors trained on COCO are not those counted at 800 x 800 pixels, although people call them the same."""
    assert resolves("models", "mask_rcnn_r_50_fpn_1x") == resolves("models", "mask_r_50_fpn")
    assert resolves("models", "mask_r_50_fpn") != resolves("models", "mask_rcnn_r50_fpn")
