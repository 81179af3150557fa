"""A training that is planned by time: where its schedule stands, and how many updates are left."""

import json

import pytest
import tensorflow as tf

from beambert.errors import InputError
from beambert.trainer.loop.config import OptimizerConfig
from beambert.trainer.loop.phases import Course, Phase, TimeSpent, updates_left

SCHEDULE = OptimizerConfig(1e-3, 1000, 100, budget_seconds=60.0)


def phase(last_step: int, flops: float = 1.0) -> Phase:
    return Phase(last_step, lambda step: None, None, 1, 1, flops)


def test_at_first_an_update_is_a_step_of_the_schedule():
    course = Course(SCHEDULE)
    assert [course.position(step) for step in (0, 7, 1000)] == [0, 7, 1000]
    assert course.last == 1000 and course.step_at(900) == 900


def test_a_new_course_goes_on_where_the_old_one_stood():
    course = Course(SCHEDULE)
    course.change(100, 450)
    # The 900 steps that are left are gone through in 450 updates.
    assert [course.position(step) for step in (100, 101, 325, 550)] == [100, 102, 550, 1000]
    course.change(325, 900)
    assert course.position(325) == pytest.approx(550)
    assert course.position(775) == pytest.approx(775)
    assert course.last == 1225
    assert float(course.at(tf.constant(775, tf.int64))) == pytest.approx(775)


def test_the_ends_of_phases_are_updates():
    course = Course(SCHEDULE)
    course.change(100, 450)
    assert course.step_at(900) == 500
    assert course.step_at(901) == 501  # in between: the first update behind it
    assert course.step_at(1000) == course.last == 550
    course.change(500, 7)
    assert course.step_at(900) == 500


def test_replicas_stand_at_the_same_place(two_devices):
    with two_devices.scope():
        course = Course(SCHEDULE)
    course.change(100, 450)
    at = two_devices.run(tf.function(lambda: course.at(tf.constant(325, tf.int64))))
    assert [float(each) for each in two_devices.experimental_local_results(at)] == [550, 550]


@pytest.mark.parametrize("end", [997, 123_457, 1_000_000])
def test_the_end_is_reached_whatever_is_rounded(end):
    schedule = OptimizerConfig(1e-3, end, 10, budget_seconds=60.0)
    course = Course(schedule)
    for step in range(0, 3000, 137):
        course.change(step, 3331 - step)
        assert course.step_at(end) == 3331
    assert course.position(3331) == pytest.approx(end)


def test_the_time_that_is_left_decides_how_many_updates_are_left():
    course = Course(SCHEDULE)
    assert updates_left(course, 0, [phase(1000)], 0.5, 100.0) == 200
    # A half of the schedule is gone, which changes nothing.
    assert updates_left(course, 500, [phase(1000)], 0.5, 100.0) == 200
    assert updates_left(course, 500, [phase(1000)], 0.5, -3.0) == 1


def test_updates_of_other_phases_take_longer_by_their_operations():
    course = Course(SCHEDULE)
    phases = [phase(900, 1.0), phase(1000, 5.0)]
    # Nine tenths of the updates take 0.1 s, the others 0.5 s.
    assert updates_left(course, 0, phases, 0.1, 140.0) in (999, 1000)
    # In the last phase 0.5 s is what was measured.
    assert updates_left(course, 950, phases, 0.5, 100.0) == 200


def test_time_is_counted_over_processes(tmp_path):
    now = [100.0]
    first = TimeSpent(str(tmp_path), clock=lambda: now[0])
    first.read()
    now[0] = 130.0
    first.save()
    now[0] = 135.0  # This process is killed, and what it did not save is lost.
    second = TimeSpent(str(tmp_path), clock=lambda: now[0])
    second.read()
    now[0] = 136.5
    assert second.seconds == 31.5


@pytest.mark.parametrize("content", ["", "{}", '{"seconds": "x"}', '{"seconds": -1}', "[]"])
def test_a_damaged_file_is_named(tmp_path, content):
    (tmp_path / "time_spent.json").write_text(content)
    with pytest.raises(InputError, match=r"time_spent.json: is damaged; delete it"):
        TimeSpent(str(tmp_path)).read()


def test_the_file_is_read_by_others(tmp_path):
    TimeSpent(str(tmp_path)).save()
    assert json.loads((tmp_path / "time_spent.json").read_text()).keys() == {"seconds"}
