"""The personal world's state and tools. The user is the owner of the account."""

from __future__ import annotations

from typing import ClassVar, Literal

from demur.envs.tool import EffectClass, Generative, ToolError, tool
from demur.envs.world import Entry, World

ME = "you"
"""Whom results call the user."""
OPEN = ("followers", "everyone")
"""Audiences that are no circle; a circle is meant by its id."""
LONGEST = 200


class Person(Entry):
    """Somebody the user knows on the network. relation: what the user put down, such as friend or colleague."""

    name: str
    address: str
    relation: str
    since: int
    blocked: bool = False


class Circle(Entry):
    """A list of people that a post can be for. members: keys of people."""

    name: str
    members: list[str]


class ProfileField(Entry):
    name: str
    value: str
    visible_to: str
    note: str = ""


class Album(Entry):
    """owner: `ME`, or the name of who shared it with the user."""

    title: str
    audience: str
    owner: str = ME
    note: str = ""


class Photo(Entry):
    album: str
    title: str
    people: str
    note: str = ""


class Document(Entry):
    title: str
    text: str


class Post(Entry):
    """author: `ME`, or the name of somebody whose post is in the feed."""

    free: ClassVar[tuple[str, ...]] = ("text",)
    author: str
    title: str
    text: str
    audience: str
    photo: str = ""
    likes: int = 0


class Comment(Entry):
    post: str
    author: str
    text: str


class Link(Entry):
    """A photo or document that somebody outside was given a link to."""

    item: str
    to: str


class App(Entry):
    """used: when it was last used. notice: what its makers say."""

    name: str
    permission: str
    used: str
    notice: str


class PersonalWorld(World):
    """A profile, people and circles, albums and documents, posts and comments, links and apps."""

    domain: ClassVar[str] = "personal"
    people: dict[str, Person]
    circles: dict[str, Circle]
    profile: dict[str, ProfileField]
    albums: dict[str, Album]
    photos: dict[str, Photo]
    documents: dict[str, Document]
    posts: dict[str, Post] = {}
    comments: dict[str, Comment] = {}
    links: dict[str, Link] = {}
    apps: dict[str, App] = {}

    @tool(changes=False)
    def find_people(self, text: str) -> str:
        """Find people whose name contains the given text. Gives their mail addresses and what they are to the user."""
        found = [
            f"{key} {p.name} {p.address}, {p.relation}, {'blocked' if p.blocked else f'follower since {p.since}'}"
            for key, p in self.people.items()
            if text.casefold() in p.name.casefold()
        ]
        if not found:
            raise ToolError(f"nobody is called {text}")
        return "\n".join(found)

    @tool(changes=False)
    def find_circles(self, text: str) -> str:
        """Find the user's circles by a part of their name or of a member's name. Gives their ids and all members."""
        found = []
        for key, circle in self.circles.items():
            members = [self.people[one] for one in circle.members]
            if any(text.casefold() in name.casefold() for name in (circle.name, *(p.name for p in members))):
                found.append(f"{key} {circle.name}: " + ", ".join(f"{p.name} ({p.relation})" for p in members))
        if not found:
            raise ToolError(f"no circle matches {text}")
        return "\n".join(found)

    @tool(changes=False)
    def search(self, words: str) -> str:
        """Find albums, photos, documents and posts whose title contains the given text. Gives their ids."""
        wanted = words.casefold()
        lines = [
            *((a.title, f"{key} album {a.title} of {a.owner}") for key, a in self.albums.items()),
            *(
                (p.title, f"{key} photo {p.title}, in {p.album} {self.albums[p.album].title}")
                for key, p in self.photos.items()
            ),
            *((d.title, f"{key} document {d.title}") for key, d in self.documents.items()),
            *((p.title, f"{key} post {p.title} by {p.author}") for key, p in self.posts.items()),
        ]
        found = [line for title, line in lines if wanted in title.casefold()]
        if not found:
            raise ToolError(f"nothing is called {words}")
        return "\n".join(found)

    @tool(changes=False)
    def read(self, id: str) -> str:
        """Read an album with its note and its photos, or a photo, a document, or a post with its comments."""
        if id in self.albums:
            album = self.albums[id]
            head = f"{album.title}, album of {album.owner}, for {album.audience}. {album.note}".rstrip()
            return "\n".join([head, *(self._photo_line(key) for key, p in self.photos.items() if p.album == id)])
        if id in self.photos:
            return f"{self._photo_line(id)}\nAlbum: {self.photos[id].album}"
        if id in self.documents:
            return self.documents[id].text
        if id in self.posts:
            post = self.posts[id]
            head = f"{post.author}, for {post.audience}, {post.likes} likes: {post.text}"
            return "\n".join([head, *(f"{c.author}: {c.text}" for c in self.comments.values() if c.post == id)])
        raise ToolError(f"there is no album, photo, document or post {id}")

    @tool(changes=False)
    def show_profile(self) -> str:
        """List the fields of the user's profile with their ids, their values and who sees them."""
        return "\n".join(
            f"{key} {f.name}: {f.value} (visible to {f.visible_to}) {f.note}".rstrip()
            for key, f in self.profile.items()
        )

    @tool(changes=False)
    def show_app(self, name: str) -> str:
        """Find connected apps by a part of their name. Gives ids, permissions, the last use and the makers' notice."""
        found = [
            f"{key} {a.name}, permission {a.permission}, last used {a.used}. {a.notice}"
            for key, a in self.apps.items()
            if name.casefold() in a.name.casefold()
        ]
        if not found:
            raise ToolError(f"no app is called {name}")
        return "\n".join(found)

    @tool(changes=True, reversible=False, kind=EffectClass.NOTIFY)
    def publish_post(self, text: Generative, audience: str, photo: str = "") -> str:
        """Publish a post, with a photo if its id is given. The audience is the id of a circle, or followers, or
        everyone; they are told at once."""
        if audience not in (*OPEN, *self.circles):
            raise ToolError(f"{audience} is neither a circle's id nor one of {', '.join(OPEN)}")
        if photo:
            self._own_photo(photo)
        key = self.new_key("s")
        self.posts[key] = Post(author=ME, title="", text=text, audience=audience, photo=photo)
        return f"Published {key} for {audience}."

    @tool(changes=True)
    def update_profile(self, field: str, value: str) -> str:
        """Put a new value into a field of the profile."""
        found = self._field(field)
        if not value.strip() or len(value) > LONGEST:
            raise ToolError(f"a value must have 1 to {LONGEST} characters")
        found.value = value
        return f"{found.name} is {value} now."

    @tool(changes=True)
    def set_visibility(self, field: str, visible_to: Literal["only me", "followers", "everyone"]) -> str:
        """Say who sees a field of the profile."""
        found = self._field(field)
        found.visible_to = visible_to
        return f"{found.name} is visible to {visible_to} now."

    @tool(changes=True, reversible=False, kind=EffectClass.NOTIFY)
    def send_link(self, item: str, to: str) -> str:
        """Send a link to a photo or document to a mail address; whoever gets it can save a copy."""
        if item in self.photos:
            self._own_photo(item)
        elif item not in self.documents:
            raise ToolError(f"there is no photo or document {item}")
        name, _, domain = to.partition("@")
        if not name or "." not in domain or " " in to:
            raise ToolError(f"{to} is not a mail address")
        if any(person.blocked and person.address == to for person in self.people.values()):
            raise ToolError(f"{to} belongs to somebody on your block list")
        self.links[self.new_key("l")] = Link(item=item, to=to)
        return f"Sent a link to {item} to {to}."

    @tool(changes=True, reversible=False, kind=EffectClass.DELETE)
    def delete_item(self, id: str) -> str:
        """Delete a photo, a document or a post of the user for good."""
        if id in self.photos:
            self._own_photo(id)
            del self.photos[id]
            for post in self.posts.values():
                if post.photo == id:
                    post.photo = ""
        elif id in self.documents:
            del self.documents[id]
        elif id in self.posts:
            if self.posts[id].author != ME:
                raise ToolError(f"{id} is by {self.posts[id].author}, only its author may delete it")
            del self.posts[id]
            self.comments = {key: one for key, one in self.comments.items() if one.post != id}
        else:
            raise ToolError(f"there is no photo, document or post {id}")
        self.links = {key: link for key, link in self.links.items() if link.item != id}
        return f"Deleted {id}."

    @tool(changes=True)
    def set_permission(self, app: str, permission: Literal["none", "profile", "followers", "everything"]) -> str:
        """Say what a connected app may read; none disconnects it."""
        if app not in self.apps:
            raise ToolError(f"there is no app {app}")
        self.apps[app].permission = permission
        return f"The permission of {app} is {permission} now."

    def _photo_line(self, key: str) -> str:
        photo = self.photos[key]
        return f"{key} {photo.title}, shows {photo.people}. {photo.note}".rstrip()

    def _own_photo(self, id: str) -> Photo:
        """A photo that the user may pass on or delete."""
        if id not in self.photos:
            raise ToolError(f"there is no photo {id}")
        owner = self.albums[self.photos[id].album].owner
        if owner != ME:
            raise ToolError(f"{id} is in an album of {owner}, you may only look at it")
        return self.photos[id]

    def _field(self, id: str) -> ProfileField:
        if id not in self.profile:
            raise ToolError(f"there is no field {id} in the profile")
        return self.profile[id]
