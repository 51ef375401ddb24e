"""The file world's state and tools."""

from __future__ import annotations

from typing import ClassVar

from demur.envs.tool import EffectClass, Generative, ToolError, tool
from demur.envs.world import Entry, World


class File(Entry):
    """path: `folder/name`; there is one level of folders, and a folder exists while it holds files.

    The text is not compared, which is safe because no tool overwrites one.
    """

    free: ClassVar[tuple[str, ...]] = ("text",)
    path: str
    text: str
    note: str = ""

    @property
    def folder(self) -> str:
        return self.path.partition("/")[0]

    @property
    def name(self) -> str:
        return self.path.partition("/")[2]


class User(Entry):
    name: str
    login: str


class Share(Entry):
    """file: a key of `files`, so that a share outlives moving and renaming. user: a login or an address."""

    file: str
    user: str


class FilesWorld(World):
    """Files, the colleagues in the directory, and who can see which file."""

    domain: ClassVar[str] = "files"
    users: dict[str, User]
    files: dict[str, File]
    shares: dict[str, Share] = {}

    @tool(changes=False)
    def find_user(self, name: str) -> str:
        """Look up the user name of everybody whose name contains the given text."""
        found = [u for u in self.users.values() if name.casefold() in u.name.casefold()]
        if not found:
            raise ToolError(f"no user is called {name}")
        return "\n".join(f"{u.name} {u.login}" for u in found)

    @tool(changes=False)
    def list_folder(self, folder: str) -> str:
        """List the names of the files in a folder, with the notes on them."""
        found = [f for f in self.files.values() if f.folder.casefold() == folder.casefold()]
        if not found:
            raise ToolError(f"there is no folder {folder}")
        return "\n".join(f"{f.name} {f.note}".rstrip() for f in found)

    @tool(changes=False)
    def search_files(self, words: str) -> str:
        """Find files whose name contains the given text. Gives their paths, with the notes on them."""
        found = [f for f in self.files.values() if words.casefold() in f.name.casefold()]
        if not found:
            raise ToolError(f"no file matches {words}")
        return "\n".join(f"{f.path} {f.note}".rstrip() for f in found)

    @tool(changes=False)
    def read_file(self, path: str) -> str:
        """Read a file."""
        return self.files[self._key(path)].text

    @tool(changes=True)
    def write_file(self, path: str, text: Generative) -> str:
        """Write a new file. The path is folder/name."""
        path = self._new_path(path)
        self.files[self.new_key("f")] = File(path=path, text=text)
        return f"Wrote {path}."

    @tool(changes=True)
    def move_file(self, path: str, folder: str) -> str:
        """Move a file to a folder, under the same name."""
        file = self.files[self._key(path)]
        file.path = self._new_path(f"{folder}/{file.name}")
        return f"Moved to {file.path}."

    @tool(changes=True)
    def rename_file(self, path: str, name: str) -> str:
        """Give a file a new name in the same folder."""
        file = self.files[self._key(path)]
        file.path = self._new_path(f"{file.folder}/{name}")
        return f"Renamed to {file.path}."

    @tool(changes=True, reversible=False, kind=EffectClass.DELETE)
    def delete_file(self, path: str) -> str:
        """Delete a file for good."""
        key = self._key(path)
        del self.files[key]
        self.shares = {k: share for k, share in self.shares.items() if share.file != key}
        return f"Deleted {path}."

    @tool(changes=True, reversible=False)
    def share_file(self, path: str, user: str) -> str:
        """Let somebody see a file: a user name, or the mail address of somebody outside."""
        file = self._key(path)
        if "@" not in user and all(known.login != user for known in self.users.values()):
            raise ToolError(f"there is no user {user}")
        if self._shares(file, user):
            raise ToolError(f"{path} is already shared with {user}")
        self.shares[self.new_key("s")] = Share(file=file, user=user)
        return f"Shared {path} with {user}."

    @tool(changes=True)
    def stop_sharing(self, path: str, user: str) -> str:
        """No longer let somebody see a file."""
        found = self._shares(self._key(path), user)
        if not found:
            raise ToolError(f"{path} is not shared with {user}")
        for key in found:
            del self.shares[key]
        return f"Stopped sharing {path} with {user}."

    def _key(self, path: str) -> str:
        for key, file in self.files.items():
            if file.path == path:
                return key
        raise ToolError(f"there is no file {path}")

    def _new_path(self, path: str) -> str:
        """The path, if a file may get it."""
        folder, _, name = path.partition("/")
        if not folder or not name or "/" in name:
            raise ToolError(f"{path} is not of the form folder/name")
        if any(file.path == path for file in self.files.values()):
            raise ToolError(f"there is a file {path} already")
        return path

    def _shares(self, file: str, user: str) -> list[str]:
        return [key for key, share in self.shares.items() if (share.file, share.user) == (file, user)]
