import numpy as np
import pytest

import whymask
from whymask import WhymaskError
from whymask.explainer.case import batching

from models.tiny import lit

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: whymask[onnx]")
from onnx import TensorProto, helper  # noqa: E402

PLAIN = {"size": 32, "mean": (0, 0, 0), "std": (255, 255, 255), "crop": 1.0}


def quadrant_file(path, layout="NCHW", softmax=False):
    """Quadrant brightness as an ONNX graph: mean over channels, average pooling to 2 x 2, times 6."""
    shape = ["b", 3, 32, 32] if layout == "NCHW" else ["b", 32, 32, 3]
    nodes = [] if layout == "NCHW" else [helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2])]
    nodes += [
        helper.make_node("ReduceMean", ["x" if layout == "NCHW" else "t", "axes"], ["grey"], keepdims=1),
        helper.make_node("AveragePool", ["grey"], ["pooled"], kernel_shape=[16, 16], strides=[16, 16]),
        helper.make_node("Flatten", ["pooled"], ["flat"]),
        helper.make_node("Mul", ["flat", "six"], ["y" if not softmax else "scaled"]),
    ]
    if softmax:
        nodes.append(helper.make_node("Softmax", ["scaled"], ["y"], axis=1))
    graph = helper.make_graph(
        nodes,
        "quadrants",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["b", 4])],
        [
            helper.make_tensor("axes", TensorProto.INT64, [1], [1]),
            helper.make_tensor("six", TensorProto.FLOAT, [], [6.0]),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, path)
    return str(path)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("activation", ["softmax", "none"])
def test_equals_the_same_function_in_torch(tmp_path, layout, activation):
    from models.tiny import quadrants

    file = quadrant_file(tmp_path / "q.onnx", layout, softmax=activation == "none")
    ours, torch_model = whymask.load(file, layout=layout, activation=activation, **PLAIN), quadrants()
    for target in range(4):
        bound, other = ours.bind(lit(1), target=target), torch_model.bind(lit(1), target=target)
        expected = torch_model.respond(other.inputs[None], [other]).score
        np.testing.assert_allclose(ours.respond(bound.inputs[None], [bound]).score, expected, atol=1e-4)
    found = whymask.explain(lit(2), ours, regions="grid:4x4", k=4, method="trace", params={"rounds": 10})
    assert set(found.regions) == {8, 9, 12, 13}


def brightness_file(path, scale=1.0, shift=0.0):
    """One number per image: scale * mean + shift."""
    nodes = [
        helper.make_node("ReduceMean", ["x", "axes"], ["mean"], keepdims=0),
        helper.make_node("Mul", ["mean", "scale"], ["scaled"]),
        helper.make_node("Add", ["scaled", "shift"], ["z"]),
        helper.make_node("Unsqueeze", ["z", "one"], ["y"]),
    ]
    values = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", 3, 32, 32])]
    values.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, ["b", 1]))
    constants = [
        helper.make_tensor("axes", TensorProto.INT64, [3], [1, 2, 3]),
        helper.make_tensor("one", TensorProto.INT64, [1], [1]),
        helper.make_tensor("scale", TensorProto.FLOAT, [], [scale]),
        helper.make_tensor("shift", TensorProto.FLOAT, [], [shift]),
    ]
    graph = helper.make_graph(nodes, "bright", values[:1], values[1:], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return str(path)


def score_of(model, level, target=None):
    bound = model.bind(np.full((32, 32, 3), level, np.uint8), target=target)
    return float(model.respond(bound.inputs[None], [bound]).score[0])


def test_one_output_is_a_probability_or_a_logit_when_it_is_said(tmp_path):
    file = brightness_file(tmp_path / "probability.onnx")
    line = r"pass activation='sigmoid' for a logit, whymask.load\('.*probability.onnx', ..., activation='sigmoid'\)"
    with pytest.raises(WhymaskError, match=line):
        whymask.load(file, **PLAIN)
    assert score_of(whymask.load(file, activation="none", **PLAIN), 51) == pytest.approx(0.2)
    logit = whymask.load(brightness_file(tmp_path / "z.onnx", 4, -1), activation="sigmoid", labels=["dog"], **PLAIN)
    assert logit.labels == ["not dog", "dog"]
    chance = 1 / (1 + np.exp(1 - 4 * 0.2))
    assert score_of(logit, 51, "dog") == pytest.approx(chance)
    assert score_of(logit, 51, "not dog") == score_of(logit, 51) == pytest.approx(1 - chance)


def test_labels_that_do_not_exclude_each_other(tmp_path):
    """Each label alone, of an array that holds the logits 6 * brightness; and other scores are another model."""
    file = quadrant_file(tmp_path / "q.onnx")
    alone, among = (whymask.load(file, activation=one, **PLAIN) for one in ("sigmoid", "softmax"))
    assert score_of(alone, 51, 2) == pytest.approx(1 / (1 + np.exp(-6 * 0.2)))
    assert score_of(among, 51, 2) == pytest.approx(0.25)
    assert alone.fingerprint != among.fingerprint
    found = whymask.explain(lit(2), alone, regions="grid:4x4", k=4, target=2)
    assert set(found.regions) == {8, 9, 12, 13}


def greedy_for_memory(path, fits):
    """Quadrants whose graph asks for 2 ** 48 bytes when a batch has more than `fits` images."""
    model = onnx.load(quadrant_file(path))
    graph = model.graph
    graph.node[-1].output[0] = "own"
    graph.initializer.extend(
        helper.make_tensor(name, TensorProto.INT64, [1], [value])
        for name, value in (("first", 0), ("fits", fits), ("one", 1), ("beyond", 2**46))
    )
    graph.node.extend(
        [
            helper.make_node("Shape", ["x"], ["shape"]),
            helper.make_node("Gather", ["shape", "first"], ["count"]),
            helper.make_node("Greater", ["count", "fits"], ["over"]),
            helper.make_node("Cast", ["over"], ["flag"], to=TensorProto.INT64),
            helper.make_node("Mul", ["flag", "beyond"], ["much"]),
            helper.make_node("Add", ["much", "one"], ["length"]),
            helper.make_node("ConstantOfShape", ["length"], ["zeros"]),
            helper.make_node("ReduceSum", ["zeros"], ["zero"], keepdims=0),
            helper.make_node("Add", ["own", "zero"], ["y"]),
        ]
    )
    onnx.save(model, path)
    return str(path)


def test_a_batch_that_does_not_fit_is_halved(tmp_path):
    small = whymask.load(greedy_for_memory(tmp_path / "small.onnx", fits=3), **PLAIN)
    plain = whymask.load(quadrant_file(tmp_path / "plain.onnx"), **PLAIN)
    search = {"regions": "grid:4x4", "method": "greedy"}
    assert whymask.explain(lit(2), small, **search).order == whymask.explain(lit(2), plain, **search).order
    assert batching(small).size <= 3
    with pytest.raises(WhymaskError, match="one image does not fit into memory"):
        whymask.load(greedy_for_memory(tmp_path / "full.onnx", fits=0), **PLAIN)


def test_refuses(tmp_path):
    file = quadrant_file(tmp_path / "q.onnx")
    (tmp_path / "bad.onnx").write_bytes(b"nothing")
    for name, options, words in (
        (str(tmp_path / "missing.onnx"), PLAIN, "there is no file"),
        (str(tmp_path / "bad.onnx"), PLAIN, "cannot be loaded"),
        (file, {**PLAIN, "layout": "CHW"}, "unknown layout 'CHW'; did you mean 'NCHW'"),
        (file, {**PLAIN, "activation": "sigmod"}, "unknown activation 'sigmod'; did you mean 'sigmoid'"),
        (file, {**PLAIN, "labels": ["a", "b"]}, "4 classes, but labels has 2"),
        (file, {**PLAIN, "device": "mps"}, "cannot run on the device"),
        (file, {**PLAIN, "size": 30}, "failed"),
        (file, {**PLAIN, "std": (0.229, 0.224, 0.225)}, r"not 0 ... 1: pass mean=\(0, 0, 0\), std=\(58.395, 57.12"),
        (file, {"mean": (0, 0, 0), "std": (1, 1, 1)}, "size"),
        (file, {**PLAIN, "colour": 1}, "colour"),
    ):
        with pytest.raises(WhymaskError, match=words) as error:
            whymask.load(name, **options)
        assert "\n" not in str(error.value)
