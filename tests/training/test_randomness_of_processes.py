"""What each of several processes draws."""

from headwise.training.randomness import seed_of


def test_no_process_seed_or_step_draws_what_another_does():
    places = [
        (seed, rank, step) for seed in range(9) for rank in range(9) for step in (None, 0, 1, 510, 511, 512, 1023)
    ]
    found = [seed_of(*place) for place in places]
    assert len(set(found)) == len(found)
    assert all(0 <= one < 2**63 for one in found)


def test_the_first_process_has_the_seed_itself():
    assert [seed_of(seed, 0) for seed in (0, 1, 77)] == [0, 1, 77]
