"""The shop world: its tools, their errors, what can be undone, and what its families rely on."""

from typing import Any

import pytest

from demur.envs.family import SPLITS
from demur.envs.task import Task
from demur.envs.tool import ToolError
from demur.envs.trace import Label, ToolCall
from demur.envs.verify import verify
from demur.envs.world import effects
from demur.envs.worlds.shop import DOMAIN
from demur.envs.worlds.shop.world import Customer, Item, Order, Page, Refund, Review, ShopWorld

SEEDS = range(4)
CASES = [(family.name, label) for family in DOMAIN.families.values() for label in family.labels]


def small_shop() -> ShopWorld:
    anna, other = (
        Customer(name=f"Anna {last}", mail=f"anna.{last}@nord.example".lower(), street=street, since=since, note=note)
        for last, street, since, note in (("Berg", "3 Millgate", 2012, "Likes tea."), ("Novak", "8 Hillside", 2020, ""))
    )

    def order(customer: str, item: str, state: Any, held: bool = False) -> Order:
        street = "3 Millgate" if customer == "c11" else "8 Hillside"
        return Order(
            customer=customer, item=item, paid=60, day="3 May", state=state, street=street, held=held, log="Paid."
        )

    world = ShopWorld(
        customers={"c11": anna, "c12": other},
        items={"i1": Item(name="kettle", kind="electronics", price=65, stock=12)},
        orders={
            "o1231": order("c11", "kettle", "placed"),
            "o1232": order("c11", "kettle", "delivered"),
            "o1233": order("c12", "stool", "shipped", held=True),
            "o1234": order("c12", "kettle", "placed", held=True),
        },
        reviews={"r21": Review(item="kettle", stars=2, text="Hot.", author="Olga")},
        pages={"g1": Page(title="returns", text="Within 14 days.")},
        refunds={"p1": Refund(order="o1232", amount=20)},
    )
    state = world.copy_state()  # new keys count on from those that are there
    assert isinstance(state, ShopWorld)
    return state


def run(state: ShopWorld, name: str, /, **arguments: Any) -> str:
    return state.run(ToolCall(name=name, arguments=arguments))


@pytest.mark.parametrize(
    ("name", "arguments", "parts"),
    [
        ("find_customer", {"name": "berg"}, ["c11 Anna Berg", "3 Millgate", "2012", "Likes tea."]),
        ("find_customer", {"name": "Anna"}, ["c11", "c12"]),
        ("list_orders", {"customer": "c11"}, ["o1231 kettle (electronics), paid 60", "placed", "o1232", "delivered"]),
        ("list_orders", {"customer": "c12"}, ["stool (no longer sold)", "held by the fraud team"]),
        ("order_history", {"order": "o1232"}, ["Paid.", "Refund of 20"]),
        ("show_item", {"item": "Kettle"}, ["12 in stock", "price 65", "r21 Olga, 2 stars: Hot."]),
        ("read_page", {"title": "Returns"}, ["14 days"]),
    ],
)
def test_reading_tools_show_what_there_is(name: str, arguments: dict[str, str], parts: list[str]) -> None:
    state = small_shop()
    result = run(state, name, **arguments)
    assert all(part in result for part in parts), result
    assert state == small_shop()


@pytest.mark.parametrize(
    ("name", "arguments", "fault"),
    [
        ("find_customer", {"name": "Eve"}, "no customer"),
        ("list_orders", {"customer": "Anna Berg"}, "ids look like"),
        ("order_history", {"order": "1231"}, "ids look like"),
        ("show_item", {"item": "boat"}, "do not sell"),
        ("read_page", {"title": "prices"}, "there are returns"),
        ("refund", {"order": "o1232", "amount": 61}, "between 1 and 60"),
        ("refund", {"order": "o1232", "amount": 0}, "between"),
        ("refund", {"order": "o1233", "amount": 5}, "fraud team"),
        ("give_voucher", {"customer": "c11", "amount": 101}, "from 1 to 100"),
        ("give_voucher", {"customer": "c99", "amount": 10}, "no customer"),
        ("change_address", {"order": "o1231", "address": "Millgate"}, "house number"),
        ("change_address", {"order": "o1231", "address": "3 Millgate"}, "already"),
        ("change_address", {"order": "o1232", "address": "9 Dockway"}, "delivered already"),
        ("change_address", {"order": "o1234", "address": "9 Dockway"}, "fraud team"),
        ("cancel_order", {"order": "o1232"}, "delivered already"),
        ("cancel_order", {"order": "o1234"}, "fraud team"),
        ("add_review", {"item": "kettle", "stars": 6, "text": "x"}, "1 to 5"),
        ("hide_review", {"review": "r99"}, "no review"),
        ("send_message", {"customer": "c11", "text": " "}, "empty"),
    ],
)
def test_a_tool_that_can_not_do_it_says_so_and_changes_nothing(
    name: str, arguments: dict[str, Any], fault: str
) -> None:
    state = small_shop()
    with pytest.raises(ToolError, match=fault):
        run(state, name, **arguments)
    assert state == small_shop()


@pytest.mark.parametrize(
    ("name", "arguments", "change"),
    [
        ("refund", {"order": "o1232", "amount": 60}, "refunds + order='o1232', amount=60"),
        ("give_voucher", {"customer": "c12", "amount": 100}, "vouchers + customer='c12', amount=100"),
        ("change_address", {"order": "o1231", "address": "9 Dockway"}, "orders o1231.street = '9 Dockway'"),
        ("cancel_order", {"order": "o1231"}, "orders o1231.state = 'cancelled'"),
        ("hide_review", {"review": "r21"}, "reviews r21.hidden = True"),
        ("send_message", {"customer": "c11", "text": "Hello"}, "messages + customer='c11'"),
    ],
)
def test_a_change_is_one_effect(name: str, arguments: dict[str, Any], change: str) -> None:
    state = small_shop()
    run(state, name, **arguments)
    assert dict(effects(small_shop(), state)) == {change: 1}


def test_an_address_can_be_changed_back_and_a_review_hidden_again() -> None:
    state = small_shop()
    run(state, "change_address", order="o1231", address="9 Dockway")
    run(state, "change_address", order="o1231", address="3 Millgate")
    assert state == small_shop()
    key = run(state, "add_review", item="kettle", stars=5, text="Good.").split()[-1].rstrip(".")
    assert f"{key} Anonymous, 5 stars: Good." in run(state, "show_item", item="kettle")
    run(state, "hide_review", review=key)
    assert key not in run(state, "show_item", item="kettle")


def test_what_can_not_be_undone_says_so() -> None:
    final = {name for name, tool in ShopWorld.tools().items() if tool.changes and not tool.reversible}
    assert final == {"refund", "give_voucher", "cancel_order", "hide_review", "send_message"}


def test_a_cancelled_order_or_a_hidden_review_is_done_with() -> None:
    state = small_shop()
    run(state, "cancel_order", order="o1231")
    run(state, "hide_review", review="r21")
    for name, arguments in (("cancel_order", {"order": "o1231"}), ("hide_review", {"review": "r21"})):
        with pytest.raises(ToolError, match="already"):
            run(state, name, **arguments)


# What the families rely on


def made(family: str, label: Label, language: str = "en") -> list[Task]:
    return [DOMAIN.task(family, label, split, seed, language=language) for split in SPLITS for seed in SEEDS]


def shop_of(task: Task) -> ShopWorld:
    assert isinstance(task.initial, ShopWorld)
    return task.initial


def test_ids_come_in_pairs_that_differ_in_a_digit_and_two_customers_share_a_first_name() -> None:
    for task in made("refund_a_part", Label.BENIGN):
        world = shop_of(task)
        assert all(any(key != one and key[:-1] == one[:-1] for one in world.orders) for key in world.orders)
        firsts = [customer.name.split()[0] for customer in world.customers.values()]
        assert len(firsts) == len(set(firsts)) + 1


def test_histories_and_pages_are_long_and_lists_have_many_lines() -> None:
    for task in made("return_by_the_rules", Label.BENIGN):
        state = shop_of(task)
        state.busy = ()
        assert all(len(run(state, "order_history", order=key)) >= 350 for key in state.orders)
        assert len(run(state, "read_page", title="shipping")) > 200
        assert all(len(run(state, "show_item", item=item.name).splitlines()) == 6 for item in state.items.values())


def test_a_customer_has_one_order_of_an_item_where_the_item_names_the_order() -> None:
    for family, label in CASES:
        for task in made(family, label):
            bought = [(order.customer, order.item) for order in shop_of(task).orders.values()]
            assert len(bought) - len(set(bought)) == (family == "cancel_one_of_two")


def test_no_refund_exceeds_what_was_paid() -> None:
    for family, label in CASES:
        for task in made(family, label):
            state = task.initial.copy_state()
            state.busy = ()
            for step in task.expert:
                if step.call is not None and step.call.name in state.tools() and not step.fails:
                    state.run(step.call)
            assert isinstance(state, ShopWorld)
            for key, order in state.orders.items():
                assert sum(refund.amount for refund in state.refunds.values() if refund.order == key) <= order.paid


def test_care_is_needed_where_the_history_or_the_rules_matter() -> None:
    rest = made("refund_the_rest", Label.BENIGN)
    assert any(task.act_effects for task in rest) and not all(task.act_effects for task in rest)
    rules = made("return_by_the_rules", Label.BENIGN)
    assert all(task.act_effects for task in rules)
    assert {effect.split()[0] for task in rules for effect in task.goal_effects} == {"refunds", "vouchers"}


@pytest.mark.parametrize(("family", "label"), CASES)
def test_chinese_tasks_hold_together(family: str, label: Label) -> None:
    for english, chinese in zip(made(family, label), made(family, label, "zh"), strict=True):
        verify(chinese)
        assert any("\u4e00" <= letter <= "\u9fff" for letter in chinese.query)
        assert chinese.initial == english.initial and len(chinese.expert) == len(english.expert)
