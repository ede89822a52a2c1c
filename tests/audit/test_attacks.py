"""Attacks from the literature: they work on nonprivate models, and fall to chance as epsilon falls."""

from discreet.audit import Report, attacks
from discreet.testing import InsecureSeededNoise


def test_attacks_fall_to_chance_as_epsilon_falls() -> None:
    members = attacks.membership(epsilons=(0.1, 100.0), source=InsecureSeededNoise(1))
    hidden, strong, none = (one.rate for one in members)
    assert abs(hidden - 0.5) < 0.1
    assert none > 0.9 > strong
    items = attacks.reconstruction(epsilons=(1.0,), victims=12, source=InsecureSeededNoise(1))
    assert items[0].rate <= 0.2
    assert items[1].rate > 0.9
    page = Report(attacks=[*members, *items]).html()
    assert page.count("<td>membership</td>") == 3
    assert page.count("<td>reconstruction</td>") == 2
    assert "not private" in str(items[1])
