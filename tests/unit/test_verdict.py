# SPDX-License-Identifier: Apache-2.0
"""Your tensors or your installation: what each kind of evidence decides, and in which order."""

import pytest

from aclnn_kvcache.explain.verdict import AMBIGUOUS, Evidence, judge

SCATTER = "aclnnScatterPaKvCacheWithKScale"
GOOD = Evidence(
    561103,
    legal=True,
    operator=SCATTER,
    soc_name="Ascend950PR_9599",
    roots=("/opt/cann",),
    kernels_found=True,
    kernels_searched=("/opt/cann/opp",),
    cann_version="9.1.0",
)

CASES = {
    "broken rule": (
        {"broken": ("key must have 3 dimensions, got [2]",), "legal": False},
        "arguments",
        "Your arguments: key must have 3 dimensions, got [2]",
        "1 rule is broken",
        "check_call",
    ),
    "two roots": (
        {"roots": ("/opt/a", "/opt/b")},
        "installation",
        "libraries of two CANN installations are mixed in this process",
        "libraries are mapped from /opt/a and /opt/b",
        "set_env.sh",
    ),
    "other product": (
        {"soc_name": "Ascend910B2"},
        "device",
        "kernels for Ascend 950PR and 950DT alone, and this is Ascend910B2",
        "the SoC is Ascend910B2",
        'backend="simulator" and no other product in ACLSIM_PROFILE',
    ),
    "environment variable": (
        {
            "status": 500000,
            "message": "[PID: 7] Config_Error_Invalid_Environment_Variable(EE2002): aclInit failed: X is wrong: y.\nz",
            "soc_name": "",
        },
        "installation",
        "An environment variable is wrong, not your arguments: aclInit failed: X is wrong: y",
        "the library's message is of the code for environment variables (EE2002)",
        "correct or unset the variable",
    ),
    "no device": (
        {"status": 500000, "message": "Execution_Error(EE1019): there is no device that tells the product's name"},
        "device",
        "because there is none, or none that this process may see; arguments play no part in this",
        "the library's message says that there is no device",
        "ASCEND_RT_VISIBLE_DEVICES",
    ),
    "no kernels found": (
        {"kernels_found": False, "kernels_searched": ("/opt/cann/opp", "/opt/custom")},
        "installation",
        f"the kernels of {SCATTER} are missing from the operator package",
        f"no kernel of {SCATTER} in /opt/cann/opp, /opt/custom",
        "install the operator package",
    ),
    "message about kernels": (
        {"message": "[PID: 7] Config_Error(EZ1013): the description of the kernel is not there", "kernels_found": None},
        "installation",
        "are missing from the operator package",
        "the library's message speaks of a missing kernel (EZ1013)",
        "ASCEND_OPP_PATH",
    ),
    "thread without device": (
        {"message": "aclrtGetDevice failed, 107002"},
        "device",
        "the calling thread has no device",
        "speaks of aclrtGetDevice",
        "aclrtSetDevice in every thread",
    ),
    "refused by a rule unknown here": (
        {"message": "[PID: 7] Invalid_Argument_Tensor_Shape(EZ0009): key_cache"},
        "arguments",
        "the installed operator is of another revision than these rules",
        "names an argument (EZ0009); CANN is 9.1.0",
        "aclnn-kvcache abi",
    ),
    "nothing": (
        {},
        "unknown",
        "Nothing points at the arguments, and nothing at the installation",
        f"the rules of {SCATTER} find nothing wrong with the arguments",
        "explain --plog",
    ),
    "opening": (
        {"status": 507033, "legal": False},
        "device",
        "The device could not be opened; arguments play no part in this",
        "all libraries come from /opt/cann",
        "no other process holds the device",
    ),
}


@pytest.mark.parametrize(("changes", "blame", "headline", "fact", "cure"), CASES.values(), ids=CASES)
def test_verdict(changes, blame, headline, fact, cure):
    verdict = judge(GOOD._replace(**changes))
    assert verdict is not None
    assert verdict.blame == blame
    assert headline in verdict.headline
    assert any(fact in line for line in verdict.evidence)
    assert cure in verdict.cure


def test_what_speaks_against_a_cause_is_listed():
    assert judge(GOOD).evidence == (
        f"the rules of {SCATTER} find nothing wrong with the arguments",
        "the SoC is Ascend950PR_9599, which has the operator",
        "the operator's kernels are in /opt/cann/opp",
        "all libraries come from /opt/cann",
    )


def test_the_first_clue_decides_and_the_others_are_listed():
    verdict = judge(GOOD._replace(roots=("/a", "/b"), soc_name="Ascend310P3", kernels_found=False))
    assert verdict.blame == "installation"
    assert "two CANN installations" in verdict.headline
    assert [line.split()[0:3] for line in verdict.evidence[:3]] == [
        ["libraries", "are", "mapped"],
        ["the", "SoC", "is"],
        ["no", "kernel", "of"],
    ]


def test_a_kernel_message_that_opening_a_device_leaves_behind_does_not_blame_the_operator_package():
    assert judge(GOOD._replace(status=507033, message="EZ1013", legal=False)).blame == "device"


@pytest.mark.parametrize("status", [0, 107001, 107002, 161001, 207001, 507015])
def test_statuses_that_say_enough_have_no_verdict(status):
    assert status not in AMBIGUOUS
    assert judge(GOOD._replace(status=status)) is None


def test_without_evidence_there_is_no_verdict():
    assert judge(Evidence(561103)) is None
