from headwise.labels import decimals, percent
from tools.walk import entered


def test_functions_of_the_package_alone_are_counted_in_order():
    names = [code.co_name for code in entered(lambda: (len(sorted([2, 1])), percent(0.5), decimals(0.5)))]
    assert [name for name in names if not name.startswith("_")] == ["percent", "decimals"]


def test_a_walk_ends_at_the_builtin_that_ends_it():
    assert entered(lambda: (len([1]), percent(0.5)), "len") == []
