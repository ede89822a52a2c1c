"""The subjects of audits: every private model has one."""

import discreet
from discreet.audit.subjects import shipped
from discreet.models import MODELS
from discreet.models.private import PrivateModel

SUBJECTS = shipped()


def test_no_private_model_is_left_out() -> None:
    audited = {type(subject.make()).__name__ for subject in SUBJECTS.values()}
    private = {name for name in MODELS if issubclass(getattr(discreet, name), PrivateModel)}
    assert private <= audited
    for adjacency in ("add-remove", "replace", "flip"):
        assert any(subject.make().adjacency == adjacency for subject in SUBJECTS.values())
