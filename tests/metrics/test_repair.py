import pytest

from whymask import WhymaskError
from whymask.metrics.repair import RepairOutcome, correction_region, repairs


@pytest.mark.parametrize(
    ("right", "removed"),
    [
        ([1, 0, 0, 0], 0.9),  # only the first region alone
        ([1, 0, 1, 0], 0.4),  # the longest right prefix counts, not the first
        ([0, 0, 0, 0], 1.0),
        ([0, 0, 0, 1], 0.0),  # the whole image is answered rightly already
    ],
)
def test_correction_region(right, removed):
    assert correction_region([0.1, 0.3, 0.6, 1.0], right) == pytest.approx(removed)


def test_one_entry_per_prefix():
    with pytest.raises(WhymaskError, match="the same length"):
        correction_region([0.5, 1.0], [True])


def test_all_samples_are_the_denominator():
    """Dividing by repaired samples alone would give 1 for CSR@10 and 0.05 for AMCR."""
    found = repairs(
        [
            RepairOutcome(True, 0.05, 100),
            RepairOutcome(True, 0.05, 200),
            RepairOutcome(False, 1.0, 300),
            RepairOutcome(False, 1.0, 0),
        ]
    )
    assert (found.total, found.repaired, found.failed, found.rate) == (4, 2, 2, 0.5)
    assert found.amcr == pytest.approx((0.05 + 0.05 + 1 + 1) / 4)
    assert found.csr == 0.5
    assert found.mec == 150


def test_a_tenth_removed_is_small_whatever_the_rounding():
    kept = 1 - 0.3 - 0.3 + 0.3 + 0.2  # 0.9 but for rounding
    assert repairs([RepairOutcome(True, correction_region([kept, 1.0], [True, False]))]).csr == 1
    assert repairs([RepairOutcome(True, 0.101)]).csr == 0


def test_single_masks_have_no_curve():
    found = repairs([RepairOutcome(True, mec=160), RepairOutcome(False, mec=150)])
    assert (found.amcr, found.csr, found.mec) == (None, None, 155)
    assert repairs([RepairOutcome(True)]).mec is None


def test_false_yes_and_false_no_apart():
    outcomes = [
        RepairOutcome(True, mistake="false_yes"),
        RepairOutcome(False, mistake="false_yes"),
        RepairOutcome(True, mistake="false_no"),
    ]
    assert repairs(outcomes, "false_yes").rate == 0.5
    assert repairs(outcomes, "false_no").rate == 1
    assert repairs(outcomes).as_dict()["repair_rate"] == pytest.approx(2 / 3)
    with pytest.raises(WhymaskError, match="no wrong answers"):
        repairs(outcomes[:2], "false_no")
