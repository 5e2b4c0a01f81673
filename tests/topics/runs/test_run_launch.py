"""Commands that start training runs and fine-tuning: the configuration in the frameworks' own flags."""

import pytest

import cookbook as cb
from cookbook import catalog
from cookbook.catalog.commands import engines_for

FLAGS = catalog.table("engine_flags")


@pytest.fixture(scope="module")
def run():
    return cb.planning.plan_run("llama2_7b", "h100-sxm", [16, 32], 1e12, global_batch=512, zero=3)


@pytest.fixture(scope="module")
def tuned():
    return cb.finetune("llama3_8b", "rtx-4090", method=["full", "lora", "qlora"], devices=[1, 2])


def known(engine):
    return " ".join(FLAGS.loc[FLAGS["engine"] == engine, "flag"]).split()


@pytest.mark.parametrize("engine", engines_for("train"))
def test_each_flag_of_a_run_is_in_the_table_and_nothing_is_left_out(run, engine):
    told = run.launch(engine)
    for line in (told.command, told.verify):
        options = {word.partition("=")[0] for word in line.split() if word.startswith("--")}
        assert options and options <= set(known(engine))
    assert not [note for note in told.notes if note.startswith("No flag of")]


def test_a_run_has_its_steps_checkpoints_and_configuration(run):
    row = run.table.set_index("devices").loc[16]
    told = run.launch("torchtitan", devices=16)
    for words in (
        "--nproc_per_node=8 --nnodes=2",
        f"--parallelism.data_parallel_shard_degree {row['dp']:.0f}",
        f"--training.local_batch_size {row['micro_batch']:.0f}",
        "--training.steps 476838",
        f"--checkpoint.interval {row['checkpoint_interval_seconds'] / row['step_seconds']:.0f}",
        "--parallelism.fsdp_reshard_after_forward always",
    ):
        assert words in told.command
    assert "--training.steps 20" in told.verify and "476838" not in told.verify
    assert "--nnodes=4" in run.launch().command  # 32 devices are done first


def test_numbers_of_devices_without_a_run_are_refused(run):
    with pytest.raises(catalog.Refused, match=r"give one of"):
        run.launch(devices=24)


def test_states_that_a_framework_cannot_shard_are_refused():
    sharded = cb.planning.plan_run("llama2_7b", "h100-sxm", 32, 1e12, global_batch=512, zero=1)
    assert "--use-distributed-optimizer" in sharded.launch("megatron-lm").command
    with pytest.raises(catalog.Refused, match="give zero = 2 or 3"):
        sharded.launch("torchtitan")


# Names of software as readers write them; no engine of the table starts DeepSpeed or JAX.
SOFTWARE = (
    *("", "megatron-core", "Megatron-LM 2021", "torchtitan", "torch.compile", "PyTorch FSDP", "LLM Foundry"),
    *("DeepSpeed", "JAX"),
)


@pytest.mark.parametrize("software", SOFTWARE)
@pytest.mark.parametrize(("model", "devices"), [("llama2_7b", [8, 32]), ("mixtral_8x7b", [64]), ("llama3_70b", [256])])
def test_what_is_planned_can_be_started(model, devices, software):
    """Not the fastest configuration alone: none that the planner tried is refused."""
    layouts = cb.planning.plan_run(model, "h100-sxm", devices, 1e12, global_batch=512, software=software).layouts
    axes = ["zero", "recompute", "vp", "cp", "ep"]
    for row in layouts.table.groupby(axes, observed=True).head(1).index:
        layouts.launch(row=int(row))
    assert (1 in set(layouts.table["zero"])) == (layouts.engine != "torchtitan")


@pytest.mark.parametrize("software", ["torchtitan", "PyTorch FSDP", "LLM Foundry"])
def test_a_software_starts_with_its_own_engine_which_is_all_that_is_planned_for(software):
    run = cb.planning.plan_run("llama2_7b", "h100-sxm", 32, 1e12, global_batch=512, software=software)
    assert run.launch().engine == "torchtitan" and run.launch().command == run.launch("torchtitan").command
    both = cb.planning.plan_run("llama2_7b", "h100-sxm", 32, 1e12, global_batch=512, software=software, zero=(2, 3))
    assert run.table.equals(both.table) and "zero = 2 or 3, both tried" in run.assumed


@pytest.mark.parametrize("more", [{"zero": 1}, {"zero": [1, 3]}, {"layout": {"zero": 1}}])
def test_what_a_named_software_cannot_run_is_not_planned(more):
    """The same refusal as of `launch`: argument, value, values that it can run, remedy."""
    with pytest.raises(catalog.Refused, match=r"zero = 1: torchtitan cannot .* give zero = 2 or 3") as problem:
        cb.planning.plan_run("llama2_7b", "h100-sxm", 32, 1e12, global_batch=512, software="PyTorch FSDP", **more)
    refusal = problem.value.refusal
    assert (refusal.code, refusal.field, refusal.nearest) == ("engine-cannot", "zero", ("0", "2", "3"))


@pytest.mark.parametrize(("axis", "value"), [("pipeline_schedule", "zero-bubble"), ("offload", "optimiser")])
def test_an_axis_that_only_other_software_has_is_refused_where_software_is_named(axis, value):
    ask = {"recompute": "none", "micro_batch": 1, axis: value}
    assert cb.planning.search("llama2_7b", "h100-sxm", 8, 64, **ask).tried
    with pytest.raises(catalog.Refused, match=rf"{axis} = '{value}': megatron-lm cannot run it"):
        cb.planning.search("llama2_7b", "h100-sxm", 8, 64, software="Megatron Core", **ask)


def test_pipelines_have_stages_chunks_and_a_schedule():
    layouts = cb.planning.search("llama2_70b", "h100-sxm", 64, 256)
    table = layouts.table
    row = table[(table["pp"] > 1) & (table["vp"] > 1) & (table["tp"] > 1) & (table["recompute"] == "none")].index[0]
    own, line = table.loc[row], layouts.launch(row=int(row)).command
    assert f"--pipeline-model-parallel-size {own['pp']}" in line and "--sequence-parallel" in line
    assert f"--num-virtual-stages-per-pipeline-rank {own['vp']}" in line and "--recompute" not in line
    with pytest.raises(catalog.Refused, match="is not in the table"):
        layouts.launch(row=len(table))


def test_groups_that_share_states_are_said():
    layouts = cb.planning.search("llama2_7b", "h100-sxm", 64, 512, zero=3, shard=[8, None])
    row = int(layouts.table.index[(layouts.table["shard"].astype(str) == "8")][0])
    copies = int(layouts.table.loc[row, "dp"]) // 8
    told = layouts.launch("torchtitan", row)
    assert f"replicate_degree {copies} --parallelism.data_parallel_shard_degree 8" in told.command
    assert f"--num-distributed-optimizer-instances {copies}" in layouts.launch("megatron-lm", row).command


def test_fine_tuning_by_each_method(tuned):
    table = tuned.table
    able = [number for number, fits in enumerate(table["fits"]) if fits in ("yes", "likely")]
    seen = set()
    for number in able:
        row = table.iloc[number]
        told = tuned.launch(row=number)
        seen.add(row["method"])
        keys = {word.partition("=")[0] for word in told.command.split() if "=" in word}
        assert keys <= {word.partition("=")[0] for word in known("torchtune")}
        assert not [note for note in told.notes if note.startswith("No flag of")]
        assert ("model.quantize_base=True" in told.command) == (row["method"] == "qlora")
        assert f"enable_activation_checkpointing={row['recompute'] == 'full'}" in told.command
    assert seen == set(table["method"].iloc[able]) and len(seen) > 1
    assert tuned.launch().command == tuned.launch(row=able[0]).command
    with pytest.raises(catalog.Refused, match="does not fit the memory"):
        tuned.launch(row=0)


@pytest.mark.parametrize("method", ["lora", "qlora", "full", "dpo", "grpo"])
def test_fine_tuning_on_several_devices_can_be_started(method):
    """torchtune shards on several devices, so nothing else is tried, unless it is asked for without the software."""
    found = cb.finetune("llama3_8b", "h100-sxm", method=method, devices=8)
    assert set(found.table["zero"]) <= {2, 3} and "zero = 2 or 3, both tried" in found.assumed
    if method in ("lora", "qlora", "full"):  # no engine of the table starts the others
        assert "nproc_per_node 8" in found.launch().command
    assert not [told for told in cb.finetune("llama3_8b", "h100-sxm", method=method).assumed if "zero" in told]
    with pytest.raises(catalog.Refused, match=r"zero = 0: torchtune cannot run it: .* give zero = 2 or 3"):
        cb.finetune("llama3_8b", "h100-sxm", method=method, devices=8, zero=0, software="torchtune")
    assert cb.finetune("llama3_8b", "h100-sxm", method=method, devices=1, zero=0, software="torchtune").assumed


def test_two_devices_without_sharding_are_refused():
    both = cb.finetune("llama3_8b", "h100-sxm", method="qlora", devices=2, zero=0)
    with pytest.raises(catalog.Refused, match="give zero = 2 or 3"):
        both.launch()
    sharded = cb.finetune("llama3_8b", "h100-sxm", method="lora", devices=2, zero=2, rank=32, seq=1024)
    line = sharded.launch().command
    assert "fsdp_reshard_after_forward=False" in line and "lora_finetune_distributed" in line
    assert "model.lora_rank=32" in line and "tokenizer.max_seq_len=1024" in line


def test_as_many_processes_as_devices_are_started():
    """Nodes are filled as evenly as the devices divide, and each has whole tensor-parallel groups."""
    for devices in (8, 12, 16):
        layouts = cb.planning.search("llama2_7b", "h100-sxm", devices, 96)
        for row in layouts.table.groupby("tp").head(1).index:
            words = dict(word.split("=") for word in layouts.launch(row=int(row)).command.split() if "=" in word)
            node, nodes = int(words["--nproc_per_node"]), int(words.get("--nnodes", 1))
            assert node * nodes == devices and node <= 8 and node % layouts.table.loc[row, "tp"] == 0
    tuned = cb.finetune("llama3_8b", "h100-sxm", method="lora", devices=16, zero=3)
    assert "--nproc_per_node 8 " in tuned.launch().command and any("2 nodes" in note for note in tuned.launch().notes)
