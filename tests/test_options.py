"""Options that are composed of parts: by name they are one."""

import dataclasses

import pytest

from seed_rl.algorithms import registry
from seed_rl.options import Options, option, part


@dataclasses.dataclass(frozen=True)
class Engine(Options):
    """An engine."""

    power: int = option(100, "Its power in watts.", at_least=1)
    fuel: str | None = option(None, "What it burns.")


@dataclasses.dataclass(frozen=True)
class Radio(Options):
    """A radio."""

    volume: float = option(0.5, "Its volume.", at_least=0, at_most=1, is_plumbing=True)


@dataclasses.dataclass(frozen=True)
class Car(Options):
    """A car."""

    engine: Engine = part(Engine)
    radio: Radio = part(Radio)
    seats: int = option(4, "Its seats.", at_least=1)

    def validate(self):
        if self.seats > 4 and self.engine.power < 50:
            raise ValueError("--power is too low for so many --seats.")


def test_options_reach_the_part_that_they_belong_to_and_names_and_defaults_are_flat():
    car = Car.of(seats=2, power=75, volume=1.0)
    assert car == Car(Engine(75), Radio(1.0), 2)
    assert Car.of(**car.to_dict()) == car and Car.of() == Car()
    assert Car.defaults() == {"power": 100, "fuel": None, "volume": 0.5, "seats": 4}
    assert Car.of(fuel="wood").to_dict() == {"power": 100, "fuel": "wood", "volume": 0.5, "seats": 4}
    leaves = {leaf.name: leaf for leaf in Car.leaves()}
    assert leaves["fuel"].kinds == (str, type(None))
    assert [name for name, leaf in leaves.items() if leaf.metadata["is_plumbing"]] == ["volume"]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"power": 0}, "--power=0 is too low; it must be at least 1."),
        ({"volume": 2.0}, "--volume=2.0 is too high"),
        ({"seats": 5, "power": 40}, "--power is too low for so many --seats."),
    ],
)
def test_limits_hold_in_parts_and_between_them(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        Car.of(**settings)


@pytest.mark.parametrize("name", registry.names())
def test_an_option_of_an_algorithm_belongs_to_one_part_only(name):
    names = [leaf.name for leaf in registry.config_class(name).leaves()]
    assert len(names) == len(set(names))
