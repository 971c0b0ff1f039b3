import re
import subprocess
import sys

import pytest

from whymask import WhymaskError
from whymask.methods import Recipe, methods

from search.functions import METHODS


@pytest.mark.parametrize(
    ("name", "stages", "returns"),
    [
        ("trace", ["trace"], "mask"),
        ("trace+order", ["trace", "order"], "mask"),
        ("discs+swap", ["discs", "swap"], "mask"),
        ("discs+swap+order", ["discs", "swap", "order"], "mask"),
        ("discs+swap+others", ["discs", "swap", "others"], "mask"),
        ("greedy", ["greedy"], "ordering"),
        ("trace+greedy", ["trace", "order", "greedy"], "ordering"),
        ("trace+order+greedy", ["trace", "order", "greedy"], "ordering"),
        ("copair+swap+lean", ["copair", "swap", "order", "lean"], "ordering"),
        ("smallest+phasewin", ["smallest", "order", "phasewin"], "ordering"),
        ("trace-seed", ["trace", "order", "rank-by-logits"], "ordering"),
        ("igos++", ["igos++"], "ordering"),
        ("asn+greedy", ["asn", "order", "greedy"], "ordering"),
    ],
)
def test_a_recipe_is_a_chain_of_stages(name, stages, returns):
    method = Recipe(name).method
    assert ([stage.name for stage in method.stages], method.returns) == (stages, returns)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("greedy+swap", "'greedy+swap': swap refines a mask, but greedy gives an ordering."),
        ("greedy+trace", "'greedy+trace': trace starts from nothing, but greedy gives an ordering."),
        ("trace+copair", "'trace+copair': copair starts from nothing, but trace gives a mask."),
        ("trace+rise", "'trace+rise': rise starts from nothing, but trace gives a mask."),
        ("greedy+lean", "'greedy+lean': lean continues a mask or starts from nothing, but greedy gives an ordering."),
        ("igos+++swap", "'igos+++swap': swap refines a mask, but igos++ gives an ordering."),
        ("trace+others", "'trace+others': others adds masks to a refined mask, but trace gives a mask."),
        ("trace+order+swap", "'trace+order+swap': swap refines a mask, but order gives an ordered mask."),
        ("trace+swap+others+order", "order orders the regions of a mask, but others gives masks."),
        ("swap", "'swap': swap refines a mask, but there is none before it."),
        ("smallest+swap", "'smallest+swap': smallest and swap both have a parameter called tries."),
        ("trace+swap+swap", "'trace+swap+swap': swap and swap both have a parameter called tries."),
        ("trace-seed+swap", "unknown method 'trace-seed+swap'"),
        ("trace+", "unknown method 'trace+'; did you mean 'trace"),
        ("trace++swap", "unknown method 'trace++swap'; did you mean 'trace+swap'?"),
        ("", "unknown method ''"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_an_error_of_one_line(name, message):
    with pytest.raises(WhymaskError, match=re.escape(message)) as error:
        Recipe(name)
    assert "\n" not in str(error.value)


def test_parameter_names_belong_to_one_stage():
    for method in METHODS.values():
        names = [name for stage in method.stages for name in stage.parameters if name != "init_objective"]
        assert len(names) == len(set(names))  # a mask and its refinement are scored alike


def test_the_listed_methods_are_masks_then_orderings():
    names = [method.name for method in methods()]
    assert len(names) == len(set(names)) == 90
    assert names[:6] == ["trace", "trace+order", "trace+swap", "trace+swap+order", "trace+swap+others", "copair"]
    assert names[-15:-13] == ["trace-seed", "eagle-efficient"]
    returns = [method.returns for method in methods()]
    assert returns == sorted(returns)


def test_searches_do_not_import_torch_but_baselines_are_found():
    code = """
import sys
from whymask.methods import Recipe
Recipe("trace+swap+others"); Recipe("discs+swap+greedy"); Recipe("trace-seed")
assert "torch" not in sys.modules
print(Recipe("RISE").method.needs, Recipe("asn+greedy").method.needs)"""
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout == "pixels gradients\n"
