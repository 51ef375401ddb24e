"""The bank world's state and tools. Amounts are whole units of one currency, account numbers four digits."""

from __future__ import annotations

from typing import ClassVar

from demur.envs.tool import EffectClass, ToolError, tool
from demur.envs.world import Entry, World


class Payee(Entry):
    name: str
    account: str


class Payment(Entry):
    """Money that went to an account or, if incoming, came from it. text: what the sender wrote with it."""

    account: str
    amount: int
    incoming: bool = False
    text: str = ""


class Order(Entry):
    """A standing order: the same amount every month."""

    account: str
    amount: int
    purpose: str


class Notice(Entry):
    """A message from a merchant."""

    sender: str
    subject: str
    body: str


class BankWorld(World):
    """One account with its card, payees, payments, standing orders and notices."""

    domain: ClassVar[str] = "bank"
    # The balance follows from the payments. As a field of its own it would count every payment twice.
    opening: int
    limit: int
    frozen: bool = False
    payees: dict[str, Payee]
    payments: dict[str, Payment] = {}
    orders: dict[str, Order] = {}
    notices: dict[str, Notice] = {}

    @property
    def balance(self) -> int:
        return self.opening + sum(p.amount if p.incoming else -p.amount for p in self.payments.values())

    @property
    def _state(self) -> str:
        return "frozen" if self.frozen else "not frozen"

    @tool(changes=False)
    def show_account(self) -> str:
        """Show the balance, the limit of the card and whether the card is frozen."""
        return f"Balance {self.balance}, card limit {self.limit}, {self._state}."

    @tool(changes=False)
    def find_payee(self, name: str) -> str:
        """Look up the account number of every payee whose name contains the given text."""
        found = [p for p in self.payees.values() if name.casefold() in p.name.casefold()]
        if not found:
            raise ToolError(f"no payee is called {name}")
        return "\n".join(f"{p.name} {p.account}" for p in found)

    @tool(changes=False)
    def list_payments(self) -> str:
        """List the payments to and from others, the newest last."""
        lines = [
            f"{key} {'from' if p.incoming else 'to'} {self._holder(p.account)} {p.amount} {p.text}".rstrip()
            for key, p in self.payments.items()
        ]
        return "\n".join(lines) or "No payments."

    @tool(changes=False)
    def list_orders(self) -> str:
        """List the standing orders. Gives their ids."""
        orders = self.orders.items()
        lines = [f"{key} to {self._holder(o.account)} {o.amount} {o.purpose}" for key, o in orders]
        return "\n".join(lines) or "No standing orders."

    @tool(changes=False)
    def search_notices(self, words: str) -> str:
        """Find notices whose subject or sender contains the given text. Gives their ids."""
        wanted = words.casefold()
        found = [
            f"{key} {notice.subject} from {notice.sender}"
            for key, notice in self.notices.items()
            if wanted in notice.subject.casefold() or wanted in notice.sender.casefold()
        ]
        if not found:
            raise ToolError(f"no notice matches {words}")
        return "\n".join(found)

    @tool(changes=False)
    def read_notice(self, id: str) -> str:
        """Read a notice."""
        if id not in self.notices:
            raise ToolError(f"there is no notice {id}")
        return self.notices[id].body

    @tool(changes=True, reversible=False, kind=EffectClass.PAY)
    def transfer(self, to: str, amount: int) -> str:
        """Send money to an account number."""
        account = _account(to)
        if amount <= 0:
            raise ToolError("the amount must be more than 0")
        if amount > self.balance:
            raise ToolError(f"the balance is only {self.balance}")
        self.payments[self.new_key("t")] = Payment(account=account, amount=amount)
        return f"Sent {amount} to {to}."

    @tool(changes=True)
    def add_payee(self, name: str, account: str) -> str:
        """Save a name with its account number as a payee."""
        self.payees[self.new_key("p")] = Payee(name=name, account=_account(account))
        return f"Saved {name}."

    @tool(changes=True, kind=EffectClass.DELETE)
    def remove_payee(self, name: str) -> str:
        """Remove the payee of this full name."""
        found = [key for key, p in self.payees.items() if p.name.casefold() == name.casefold()]
        if len(found) != 1:
            raise ToolError(f"{len(found)} payees have the full name {name}")
        del self.payees[found[0]]
        return f"Removed {name}."

    @tool(changes=True)
    def set_limit(self, amount: int) -> str:
        """Set the limit of the card."""
        if amount < 0:
            raise ToolError("the limit must be 0 or more")
        self.limit = amount
        return f"The limit is {amount}."

    @tool(changes=True)
    def set_frozen(self, frozen: bool) -> str:
        """Freeze the card, or let it be used again."""
        self.frozen = frozen
        return f"The card is {self._state}."

    @tool(changes=True, reversible=False)
    def cancel_order(self, id: str) -> str:
        """Cancel a standing order for good."""
        if id not in self.orders:
            raise ToolError(f"there is no standing order {id}")
        del self.orders[id]
        return f"Cancelled {id}."

    def _holder(self, account: str) -> str:
        """The name an account is saved under, else its number."""
        return next((p.name for p in self.payees.values() if p.account == account), account)


def _account(text: str) -> str:
    if not (len(text) == 4 and text.isascii() and text.isdecimal()):
        raise ToolError(f"{text} is not an account number: it has 4 digits")
    return text
