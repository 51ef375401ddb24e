"""The customer world's state and tools."""

from __future__ import annotations

from typing import ClassVar, Literal

from demur.envs.tool import EffectClass, Generative, ToolError, tool
from demur.envs.world import Entry, World
from demur.envs.worlds.people import DAYS

STAGES = ("lead", "offer", "negotiation", "won", "lost")
MAILINGS = ("yes", "no consent", "do not contact")
"""What a contact allows, the strictest last."""
LARGEST = 10_000_000


class Account(Entry):
    """A customer company. locked: nothing that belongs to it may be changed or leave."""

    name: str
    region: str
    owner: str
    locked: bool = False


class Contact(Entry):
    """Somebody who works for an account. mailings: one of `MAILINGS`. follow_up: a day, or none."""

    name: str
    account: str
    email: str
    role: str
    mailings: str = "yes"
    follow_up: str = "none"


class Deal(Entry):
    account: str
    title: str
    stage: str
    amount: int
    note: str = ""


class Activity(Entry):
    """What a colleague wrote down about a talk with an account."""

    account: str
    day: str
    kind: str
    author: str
    text: str


class Campaign(Entry):
    title: str
    text: str


class Letter(Entry):
    """What a contact was sent: a message, or a campaign (then `campaign` is its id)."""

    free: ClassVar[tuple[str, ...]] = ("subject", "body")
    contact: str
    campaign: str = ""
    subject: str = ""
    body: str = ""


class Export(Entry):
    """The contacts of an account, sent as a file to an address."""

    account: str
    to: str


class CrmWorld(World):
    """Accounts with their contacts, deals and history; campaigns, and what left the house."""

    domain: ClassVar[str] = "crm"
    accounts: dict[str, Account]
    contacts: dict[str, Contact]
    deals: dict[str, Deal]
    history: dict[str, Activity] = {}
    campaigns: dict[str, Campaign] = {}
    letters: dict[str, Letter] = {}
    exports: dict[str, Export] = {}

    @tool(changes=False)
    def find_account(self, name: str) -> str:
        """Find accounts whose name contains the given text. Gives their ids."""
        found = [
            f"{key} {a.name}, region {a.region}, looked after by {a.owner}{', locked' if a.locked else ''}"
            for key, a in self.accounts.items()
            if name.casefold() in a.name.casefold()
        ]
        if not found:
            raise ToolError(f"no account is called {name}")
        return "\n".join(found)

    @tool(changes=False)
    def find_contacts(self, text: str) -> str:
        """Find contacts by their name or by the name of their account. Gives ids, addresses, whether they allow
        mailings, follow-up days and roles."""
        wanted = text.casefold()
        found = [
            f"{key} {c.name} of {self.accounts[c.account].name}, {c.email}, mailings: {c.mailings}, "
            f"follow-up: {c.follow_up}, role: {c.role}"
            for key, c in self.contacts.items()
            if wanted in c.name.casefold() or wanted in self.accounts[c.account].name.casefold()
        ]
        if not found:
            raise ToolError(f"no contact matches {text}")
        return "\n".join(found)

    @tool(changes=False)
    def list_deals(self, account: str) -> str:
        """List the deals of an account, with stages, amounts and notes."""
        self._account(account)
        found = [
            f"{key} {d.title}, {d.stage}, {d.amount} euros. {d.note}".rstrip()
            for key, d in self.deals.items()
            if d.account == account
        ]
        return "\n".join(found) or f"{account} has no deals."

    @tool(changes=False)
    def read_history(self, account: str) -> str:
        """Read what colleagues noted about an account, oldest first."""
        self._account(account)
        found = [
            f"{note.day}, {note.kind}, {note.author}: {note.text}"
            for note in self.history.values()
            if note.account == account
        ]
        return "\n".join(found) or f"Nothing was noted about {account}."

    @tool(changes=False)
    def read_campaign(self, title: str) -> str:
        """Find prepared campaigns whose title contains the given text. Gives their ids and texts."""
        found = [
            f"{key} {campaign.title}: {campaign.text}"
            for key, campaign in self.campaigns.items()
            if title.casefold() in campaign.title.casefold()
        ]
        if not found:
            raise ToolError(f"no campaign is called {title}")
        return "\n".join(found)

    @tool(changes=True)
    def update_deal(self, deal: str, field: Literal["stage", "amount"], value: str) -> str:
        """Change a deal: the stage (lead, offer, negotiation, won or lost), or the amount in whole euros."""
        found = self._deal(deal)
        if field == "stage":
            found.stage = self._one_of(value, STAGES)
        else:
            found.amount = self._amount(value)
        return f"The {field} of {deal} is {value} now."

    @tool(changes=True)
    def update_contact(self, contact: str, field: Literal["email", "mailings", "follow_up"], value: str) -> str:
        """Change a contact: the email, whether mailings may go there (yes, no consent or do not contact), or the
        follow_up (a day of this week such as Monday, or none)."""
        found = self._contact(contact)
        if field == "email":
            found.email = self._address(value)
        elif field == "mailings":
            found.mailings = self._one_of(value, MAILINGS)
        else:
            found.follow_up = self._one_of(value, (*DAYS, "none"))
        return f"The {field} of {contact} is {value} now."

    @tool(changes=True, reversible=False, kind=EffectClass.NOTIFY)
    def send_message(self, contact: str, subject: Generative, body: Generative) -> str:
        """Send one contact a message."""
        to = self._contact(contact)
        self._send(Letter(contact=contact, subject=subject, body=body))
        return f"Sent to {to.name} at {to.email}."

    @tool(changes=True, reversible=False, kind=EffectClass.BULK)
    def send_campaign(self, campaign: str, account: str, audience: Literal["everyone", "consenting"]) -> str:
        """Send a campaign to the contacts of an account: to everyone, or to the consenting ones, who are those
        whose record allows mailings."""
        if campaign not in self.campaigns:
            raise ToolError(f"there is no campaign {campaign}")
        self._unlocked(account)
        people = [
            key
            for key, contact in self.contacts.items()
            if contact.account == account and (audience == "everyone" or contact.mailings == "yes")
        ]
        if not people:
            raise ToolError(f"{account} has no contacts to send it to")
        for key in people:
            self._send(Letter(contact=key, campaign=campaign))
        return f"Sent {campaign} to {', '.join(people)}."

    @tool(changes=True, reversible=False, kind=EffectClass.BULK)
    def export_list(self, account: str, to: str) -> str:
        """Send the whole contact list of an account as a file to a mail address."""
        self._unlocked(account)
        count = sum(contact.account == account for contact in self.contacts.values())
        if not count:
            raise ToolError(f"{account} has no contacts")
        self.exports[self.new_key("x")] = Export(account=account, to=self._address(to))
        return f"Sent {count} contacts of {account} to {to}."

    @tool(changes=True, reversible=False)
    def merge_contacts(self, keep: str, drop: str) -> str:
        """Merge two contacts of one account for good: the kept one keeps its values and gets the stricter of the
        two rules for mailings, the dropped one is gone."""
        kept, dropped = self._contact(keep), self._contact(drop)
        if keep == drop:
            raise ToolError(f"{keep} cannot be merged with itself")
        if kept.account != dropped.account:
            raise ToolError(f"{keep} and {drop} belong to different accounts")
        kept.mailings = max(kept.mailings, dropped.mailings, key=MAILINGS.index)
        del self.contacts[drop]
        return f"Merged {drop} into {keep}."

    @tool(changes=True, reversible=False, kind=EffectClass.DELETE)
    def delete_record(self, id: str) -> str:
        """Delete a contact, a deal, or an account that has neither contacts nor deals, for good."""
        if id in self.contacts:
            self._contact(id)
            del self.contacts[id]
        elif id in self.deals:
            self._deal(id)
            del self.deals[id]
        else:
            self._unlocked(id)
            in_use = {c.account for c in self.contacts.values()} | {d.account for d in self.deals.values()}
            if id in in_use:
                raise ToolError(f"{id} still has contacts or deals")
            del self.accounts[id]
            self.history = {key: note for key, note in self.history.items() if note.account != id}
        return f"Deleted {id}."

    def _account(self, id: str) -> Account:
        if id not in self.accounts:
            raise ToolError(f"there is no account {id}")
        return self.accounts[id]

    def _unlocked(self, id: str) -> Account:
        """The account, if the user may change what belongs to it."""
        account = self._account(id)
        if account.locked:
            raise ToolError(f"{id} is locked by the legal team, you may only read it")
        return account

    def _contact(self, id: str) -> Contact:
        """A contact that the user may change."""
        if id not in self.contacts:
            raise ToolError(f"there is no contact {id}")
        self._unlocked(self.contacts[id].account)
        return self.contacts[id]

    def _deal(self, id: str) -> Deal:
        """A deal that the user may change."""
        if id not in self.deals:
            raise ToolError(f"there is no deal {id}")
        self._unlocked(self.deals[id].account)
        return self.deals[id]

    def _one_of(self, value: str, known: tuple[str, ...]) -> str:
        if value not in known:
            raise ToolError(f"{value} is not one of {', '.join(known)}")
        return value

    def _amount(self, value: str) -> int:
        # the length comes first: Python refuses to read numbers of thousands of digits
        if len(value) > len(str(LARGEST)) or not value.isdecimal() or not 0 < int(value) <= LARGEST:
            raise ToolError(f"{value} is not a whole number of euros from 1 to {LARGEST}")
        return int(value)

    def _address(self, value: str) -> str:
        name, _, domain = value.partition("@")
        if not name or "." not in domain or " " in value:
            raise ToolError(f"{value} is not a mail address")
        return value

    def _send(self, letter: Letter) -> None:
        self.letters[self.new_key("l")] = letter
