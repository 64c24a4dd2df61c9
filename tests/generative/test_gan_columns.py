"""Codes of mixed tables: they invert, keep marginals, pass gradients, and say what is wrong with bad rows."""

from __future__ import annotations

import copy
import datetime
import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from scipy import stats

from benthic.base.errors import InvalidInput
from benthic.base.modelfile import load_tree, save_tree
from benthic.base.schema import Schema
from benthic.generative.gan.columns import ColumnCode
from benthic.generative.gan.columns_modes import find_modes

pytestmark = pytest.mark.spec("N-02")
D = torch.float64
N = 600


def frame(missing=True, seed=0):
    """A table with a column of every kind."""
    rng = np.random.default_rng(seed)
    two = np.where(rng.random(N) < 0.3, rng.normal(-5, 0.5, N), rng.normal(20, 3, N))
    gain = np.where(rng.random(N) < 0.8, 0, np.rint(np.exp(rng.normal(8, 0.5, N)))).astype(float)
    city = rng.choice(["Bern", "Oslo", "Rome"], N, p=[0.6, 0.3, 0.1]).astype(object)
    member = (rng.random(N) < 0.4).astype(object)
    if missing:
        two[rng.random(N) < 0.1] = np.nan
        city[rng.random(N) < 0.05] = None
        member[rng.random(N) < 0.2] = None
    start = datetime.date(2020, 1, 1)
    days = [start + datetime.timedelta(days=int(d)) for d in rng.integers(0, 900, N)]
    return pa.table(
        {
            "two": pa.array(two, from_pandas=True),
            "gain": pa.array(gain.astype(np.int64)),
            "city": pa.array(city),
            "member": pa.array(member.tolist(), pa.bool_()),
            "day": pa.array(days),
            "one": pa.array(np.full(N, 3.25)),
        }
    )


@pytest.fixture(scope="module")
def fitted():
    table = frame()
    schema = Schema.infer(table)
    rows = schema.encode(table)
    return table, schema, rows, ColumnCode().fit(rows, schema)


# -- the inverse -----------------------------------------------------------------------------------------------


def test_decode_gives_the_table_back(fitted):
    table, schema, rows, code = fitted
    matrix = code.encode(rows)
    assert isinstance(matrix, np.ndarray) and matrix.shape == (N, code.width) and np.isfinite(matrix).all()
    np.testing.assert_allclose(code.decode(matrix), rows, rtol=1e-13, atol=1e-13)  # NaN where NaN
    again = schema.decode(code.decode(matrix))
    assert again.drop_columns("two").equals(table.drop_columns("two"))
    assert again["two"].null_count == table["two"].null_count


def test_single_precision_and_tensors(fitted):
    _, schema, rows, code = fitted
    narrow = torch.as_tensor(rows, dtype=torch.float32)
    matrix = code.encode(narrow)
    assert matrix.dtype == torch.float32 and len(code.names) == matrix.shape[1]
    back = code.decode(matrix)
    assert back.dtype == torch.float32
    torch.testing.assert_close(back, narrow, rtol=1e-6, atol=1e-5, equal_nan=True)
    whole = [group.start for column, group in zip(schema.columns, schema.groups, strict=True) if column.name == "gain"]
    assert torch.equal(back[:, whole], narrow[:, whole])


def test_drawn_modes_invert_too_and_follow_the_posterior():
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(-1, 1, (4000, 1)), rng.normal(2, 1, (4000, 1))])
    code = ColumnCode().fit(rows)
    assert code.parts[0].values == 2
    x = np.full((20_000, 1), 0.7)
    matrix = code.encode(x, torch.Generator().manual_seed(0))
    np.testing.assert_allclose(code.decode(matrix), x, rtol=1e-13)
    part = code.parts[0]
    joint = part.weights * stats.norm(part.means, part.spreads).pdf(0.7)
    share, truth = matrix[:, 0].mean(), joint[0] / joint.sum()
    assert abs(share - truth) < 4 * math.sqrt(truth * (1 - truth) / len(x))
    assert set(code.encode(x)[:, 0].tolist()) == {float(joint[0] > joint[1])}  # without a generator, the likeliest


def test_every_code_decodes_to_a_row_that_exists(fitted):
    # whatever a generator makes: whole numbers, one category, truth values
    _, schema, _, code = fitted
    made = code.decode(code.activate(3 * torch.randn(500, code.width, generator=torch.Generator().manual_seed(0))))
    for column, group in zip(schema.columns, schema.groups, strict=True):
        block = made[:, group]
        seen = block[~block.isnan().any(1)]
        if column.kind == "integer":
            assert torch.equal(seen, seen.round())
        if column.kind == "category":
            assert torch.equal(seen.sum(1), torch.ones(len(seen))) and set(seen.unique().tolist()) <= {0.0, 1.0}
        if column.kind == "boolean":
            assert set(seen.unique().tolist()) <= {0.0, 1.0}
        if column.name == "one":
            assert seen.unique().tolist() == [3.25]  # a constant comes out as it is
    assert schema.decode(made.numpy()).num_rows == 500


def test_frames_of_pandas():
    table = frame().to_pandas()
    table["city"] = table["city"].astype("category")
    code = ColumnCode().fit(table)
    schema = Schema.infer(table)
    back = schema.decode(code.decode(code.encode(schema.encode(table))), index=table.index)
    pd.testing.assert_frame_equal(back, table, rtol=1e-12)


# -- modes -----------------------------------------------------------------------------------------------------


def test_modes_are_found():
    rng = np.random.default_rng(1)
    one = find_modes(rng.normal(3, 2, 3000), 8, 0)
    assert len(one.means) == 1
    assert one.means[0] == pytest.approx(3, abs=4 * 2 / math.sqrt(3000))
    assert one.spreads[0] == pytest.approx(2, abs=4 * 2 / math.sqrt(6000))
    three = np.concatenate([rng.normal(m, s, 1000) for m, s in ((-10, 1), (0, 0.5), (50, 4))])
    found = find_modes(three, 8, 0)
    np.testing.assert_allclose(found.means, [-10, 0, 50], atol=0.5)  # four standard errors of the widest
    np.testing.assert_allclose(found.spreads, [1, 0.5, 4], rtol=0.1)
    np.testing.assert_allclose(found.weights, 1 / 3, atol=0.01)
    assert len(find_modes(three, 2, 0).means) <= 2


def test_few_values_are_modes_of_their_own_and_many_zeros_too():
    found = find_modes(np.array([1.0, 2.0, 2.0, 5.0]), 8, 0)
    assert found.means.tolist() == [1.0, 2.0, 5.0] and found.weights.tolist() == [0.25, 0.5, 0.25]
    rng = np.random.default_rng(0)
    inflated = np.where(rng.random(5000) < 0.9, 0.0, np.exp(rng.normal(8, 1, 5000)))
    modes = find_modes(inflated, 8, 0)
    spike = np.argmax(modes.weights)
    assert abs(modes.means[spike]) < 1e-6 * inflated.std() and modes.weights[spike] == pytest.approx(0.9, abs=0.02)
    constant = ColumnCode().fit(np.full((5, 1), 1e9))
    assert constant.width == 1 and constant.encode(np.full((2, 1), 1e9)).tolist() == [[0.0], [0.0]]
    np.testing.assert_allclose(constant.decode(constant.encode([[1e9 + 7.0]])), 1e9 + 7)


def test_places_are_standardized_within_their_mode():
    rng = np.random.default_rng(2)
    rows = np.concatenate([rng.normal(-100, 1, (3000, 1)), rng.normal(1000, 30, (3000, 1))])
    matrix = ColumnCode().fit(rows).encode(rows)
    for mode in range(2):
        place = matrix[matrix[:, mode] == 1, 2]
        # standard normal; errors of mean and spread are of order 1/sqrt(3000)
        assert len(place) == 3000 and abs(place.mean()) < 0.08 and place.std() == pytest.approx(1.0, rel=0.05)


def test_marginals_survive_the_way_through_the_code():
    # states by their shares and places as a standard normal law: what a perfect generator would make
    rng = np.random.default_rng(3)
    rows = np.concatenate([rng.normal(-4, 1, (3000, 1)), rng.normal(3, 0.5, (5000, 1))])
    code = ColumnCode().fit(rows)
    part = code.parts[0]
    which = rng.choice(part.values, 8000, p=part.weights)
    matrix = np.concatenate([np.eye(part.values)[which], rng.normal(0, 1, (8000, 1))], 1)
    gap = stats.ks_2samp(code.decode(matrix)[:, 0], rows[:, 0]).statistic
    assert gap < 1.63 * math.sqrt(2 / 8000)  # the 1 % point


# -- the layer ---------------------------------------------------------------------------------------------------


def test_states_are_drawn_by_their_probabilities(fitted):
    *_, code = fitted
    logits = torch.randn(1, code.width, generator=torch.Generator().manual_seed(5))
    torch.manual_seed(0)
    made = code.activate(logits.expand(20_000, -1))
    for part, where in zip(code.parts, code.slices, strict=True):
        if part.states:
            block = made[:, where][:, : part.states]
            torch.testing.assert_close(block.sum(1), torch.ones(20_000))
            chances = torch.softmax(logits[0, where][: part.states], 0)
            shares = torch.nn.functional.one_hot(block.argmax(1), part.states).double().mean(0)
            assert bool(((shares - chances).abs() < 4.5 * (chances * (1 - chances) / 20_000).sqrt() + 1e-9).all())
        if not part.discrete:
            expected = part.bound * math.tanh(float(logits[0, where][-1]) / (part.bound or 1))
            torch.testing.assert_close(made[:, where.stop - 1], torch.full((20_000,), expected))


def test_a_low_temperature_makes_states_sharp_and_hard_ones_are_exact():
    rows = np.random.default_rng(0).normal(size=(50, 1)).round()
    logits = torch.zeros(200, ColumnCode().fit(rows).width)
    torch.manual_seed(0)
    sharp, soft = (ColumnCode(temperature=t).fit(rows).activate(logits)[:, :-1] for t in (0.01, 5.0))
    assert sharp.max(1).values.mean() > 0.98 and soft.max(1).values.mean() < 0.6
    hard = ColumnCode().fit(rows).activate(logits, hard=True)[:, :-1]
    torch.testing.assert_close(hard.sort(1).values[:, -2:], torch.tensor([0.0, 1.0]).expand(200, 2), atol=1e-6, rtol=0)


def test_the_bound_lets_a_generator_reach_the_data():
    rows = np.append(np.random.default_rng(0).normal(size=2000), 30.0)[:, None]  # 30 is one outlier
    code = ColumnCode(max_modes=1).fit(rows)
    assert code.parts[0].bound == pytest.approx(float(code.encode(rows)[-1, -1])) and code.parts[0].bound > 4
    far = code.decode(code.activate(torch.full((1, 1), 1e3, dtype=D)))
    assert float(far) == pytest.approx(30.0, rel=1e-6)


def test_gradients():
    rows = np.array([[0.0, 1.0, 5.0], [1.0, 1.0, 7.0], [2.0, np.nan, 9.5]] * 4)
    code = ColumnCode().fit(rows)
    logits = torch.randn(3, code.width, dtype=D, generator=torch.Generator().manual_seed(0)).requires_grad_()

    def activated(x, hard=False):
        torch.manual_seed(1)  # the same noise every time
        return code.activate(x, hard)

    torch.autograd.gradcheck(activated, (logits,))
    torch.autograd.gradgradcheck(activated, (logits,))
    pull = torch.randn(3, code.width, dtype=D, generator=torch.Generator().manual_seed(2))
    slopes = [torch.autograd.grad((activated(logits, hard) * pull).sum(), logits)[0] for hard in (False, True)]
    torch.testing.assert_close(*slopes)


def test_the_layer_is_a_module_without_weights(fitted):
    *_, code = fitted
    layer = code.layer()
    assert not list(layer.parameters()) and not layer.state_dict()
    logits = torch.randn(4, code.width)
    torch.manual_seed(3)
    expected = code.activate(logits)
    torch.manual_seed(3)
    assert torch.equal(copy.deepcopy(layer)(logits), expected)
    assert layer.to(torch.bfloat16)(logits.bfloat16()).dtype == torch.bfloat16


# -- conditions ----------------------------------------------------------------------------------------------------


def test_conditions_ask_by_the_logarithm_of_counts(fitted):
    *_, rows, code = fitted
    layer, torch_seed = code.layer(), torch.manual_seed(0)
    asked = layer.draw_conditions(30_000)
    assert torch_seed is torch.default_generator
    discrete = [part for part in code.parts if part.discrete]
    assert asked.vector.shape == (30_000, sum(part.states for part in discrete))
    assert torch.equal(asked.vector.sum(1), torch.ones(30_000))
    shares, start = asked.vector.double().mean(0).numpy(), 0
    for part in discrete:
        logs = np.log1p(part.shares)
        expected = logs / logs.sum() / len(discrete)
        assert np.abs(shares[start : start + part.states] - expected).max() < 4.5 * math.sqrt(0.25 / 30_000)
        start += part.states
    city = discrete[0]
    counted = np.append(np.nansum(rows[:, 2:5], 0), np.isnan(rows[:, 2]).sum())
    np.testing.assert_allclose(city.shares, counted)


def test_condition_loss_and_matching_rows(fitted):
    *_, rows, code = fitted
    layer = code.layer()
    torch.manual_seed(1)
    asked = layer.draw_conditions(64)
    codes = torch.as_tensor(code.encode(rows))
    chosen = codes[layer.matching_rows(codes, asked)]
    logits = torch.randn(64, code.width, dtype=D, requires_grad=True)
    losses = layer.condition_loss(logits, asked)
    blocks = [i for i, part in enumerate(code.parts) if part.states]
    for i in range(64):
        where = code.slices[blocks[int(asked.block[i])]]
        part = code.parts[blocks[int(asked.block[i])]]
        own = logits[i, where][: part.states]
        torch.testing.assert_close(losses[i], -torch.log_softmax(own, 0)[asked.state[i]])
        assert chosen[i, where][asked.state[i]] == 1.0
    losses.sum().backward()
    assert bool(logits.grad.isfinite().all())
    with pytest.raises(InvalidInput, match="no column of categories"):
        ColumnCode().fit(np.arange(20.0)[:, None]).layer().draw_conditions(3)


# -- files -----------------------------------------------------------------------------------------------------------


def test_model_files_and_copies(fitted, tmp_path):
    *_, rows, code = fitted
    read = load_tree(save_tree(tmp_path / "code.safetensors", {"code": code}))["code"]
    for other in (read, copy.deepcopy(code)):
        np.testing.assert_array_equal(other.encode(rows), code.encode(rows))
        np.testing.assert_array_equal(other.decode(code.encode(rows)), code.decode(code.encode(rows)))
        assert str(other) == str(code) and other.temperature == code.temperature
        logits = torch.randn(5, code.width)
        torch.manual_seed(0)
        first = other.activate(logits)
        torch.manual_seed(0)
        assert torch.equal(first, code.activate(logits))
    assert "city: 3 categories or missing" in str(code)


def test_the_same_rows_give_the_same_code():
    rows = np.random.default_rng(0).gamma(0.5, size=(300, 1))
    first, second = (ColumnCode(random_state=3).fit(rows).encode(rows) for _ in range(2))
    np.testing.assert_array_equal(first, second)


# -- bad input ---------------------------------------------------------------------------------------------------------


def test_bad_rows():
    table = frame(missing=False)
    schema = Schema.infer(table)
    rows = schema.encode(table)
    code = ColumnCode().fit(rows, schema)
    cases = [
        (rows[:, :3], r"fitted to \(n, 8\)"),
        (np.where(np.arange(8) == 0, np.nan, rows), "'two' has missing values"),
        (np.where(np.arange(8) == 3, 0.5, rows), "'city' is a category"),
        (np.where(np.arange(8) == 5, 2.0, rows), "'member' is a boolean"),
        (np.where(np.arange(8) == 0, np.inf, rows), "infinite"),
    ]
    for bad, match in cases:
        with pytest.raises(InvalidInput, match=match):
            code.encode(bad)
    with pytest.raises(InvalidInput, match="ColumnCode.decode"):
        code.decode(rows[:, :2])
    with pytest.raises(InvalidInput, match="activate"):
        code.activate(torch.zeros(3, 2))


@pytest.mark.parametrize(
    ("settings", "rows", "match"),
    [
        ({"max_modes": 0}, [[1.0]], "max_modes is 0"),
        ({"temperature": 0.0}, [[1.0]], "temperature"),
        ({}, np.zeros((0, 2)), "no rows"),
        ({}, [1.0, 2.0], "a table"),
        ({}, [[np.nan], [np.nan]], "'x0' has no values"),
        ({}, [[np.inf]], "infinite"),
    ],
)
def test_bad_fits(settings, rows, match):
    with pytest.raises(InvalidInput, match=match):
        ColumnCode(**settings).fit(rows)


def test_unfitted_and_wrong_schema():
    with pytest.raises(InvalidInput, match="call fit"):
        ColumnCode().encode([[1.0]])
    with pytest.raises(InvalidInput, match="the schema makes 8"):
        ColumnCode().fit([[1.0]], Schema.infer(frame()))


# -- devices ---------------------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_cuda_also_as_a_graph(fitted):
    *_, rows, code = fitted
    there = torch.as_tensor(rows).cuda()
    matrix = code.encode(there)
    assert matrix.device.type == "cuda"
    np.testing.assert_allclose(matrix.cpu().numpy(), code.encode(rows), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(code.decode(matrix), there, equal_nan=True)
    layer, logits = code.layer().cuda(), torch.randn(64, code.width, device="cuda", requires_grad=True)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            torch.autograd.grad(layer(logits).square().sum() + layer.draw_conditions(64).vector.sum(), logits)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made = layer(logits)
        (slope,) = torch.autograd.grad(made.square().sum(), logits)
        asked = layer.draw_conditions(64)
    seen = []
    for _ in range(2):
        graph.replay()
        seen.append((made.detach().clone(), slope.clone(), asked.vector.clone()))
    assert not torch.equal(seen[0][0], seen[1][0]) and not torch.equal(seen[0][2], seen[1][2])
    assert bool(seen[1][1].isfinite().all())
