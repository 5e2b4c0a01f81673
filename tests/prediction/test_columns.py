"""Rows hold what the class of their kind says, under those names and no others."""

from __future__ import annotations

import pandas as pd
import pytest

import cookbook as cb
from cookbook.prediction import storage
from cookbook.prediction.kinds import forward, generation, networks, transformer
from cookbook.prediction.kinds import input_pipeline_arguments as pipelines
from cookbook.prediction.parsing.storage import read
from cookbook.prediction.scenario import scenario

FED = {"step": 0.1, "accelerator": "h100-sxm", "storage": "micron-9400-7-68tb-gen4", "sample_bytes": 1e5}
ASKED = {
    transformer.TransformerRows: lambda: cb.train_step("llama3_8b", "h100-sxm", devices=8).rows,
    networks.NetworkRows: lambda: cb.train_step("resnet50", "v100-sxm2-16gb", devices=8).rows,
    forward.ForwardRows: lambda: cb.forward_pass("resnet50", "t4").rows,
    generation.GenerationRows: lambda: cb.generate("llama3_8b", "h100-sxm").rows,
    pipelines.InputPipelineRows: lambda: pipelines.resolve(scenario("input_pipeline", FED)),
    storage.ReportRows: lambda: storage.resolve(read(pd.DataFrame([{"kind": "fio", "workload": "bs=4k"}]))),
}


@pytest.mark.parametrize("kind", ASKED, ids=lambda kind: kind.__name__)
def test_rows_have_the_columns_of_their_class(kind):
    rows = ASKED[kind]()
    assert type(rows) is type(rows.take(slice(0, 1))) is kind
    assert set(rows.values) == set(kind.__annotations__)
