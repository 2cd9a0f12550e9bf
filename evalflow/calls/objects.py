"""Files in object storage, at addresses such as s3://bucket/data/cases.jsonl, and folders of runs there.

Files are read from copies in `.evalflow/objects`, which are updated when they are opened. obstore supports S3, Google
Cloud Storage and Azure in one package without dependencies, and can create an object only if it does not exist; fsspec
needs a different client, with its dependencies, for each. Files of Hugging Face are read from their public addresses.
Credentials, regions and endpoints come from the same environment variables that the providers' own tools use.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalflow.calls.connections import Connections
from evalflow.errors import InfrastructureError, Problem, UserError
from evalflow.extras import packages_of
from evalflow.paths import OWN_FOLDER, completed, private_folder, write_atomically

if TYPE_CHECKING:
    from obstore import GetOptions
    from obstore.store import ObjectStore

SCHEMES = ("s3", "gs", "az", "hf")
_COPIES = Path(OWN_FOLDER) / "objects"
_PATTERN = re.compile(r"[*?\[]")
_HUB = re.compile(r"(?P<repository>(?:(?:datasets|spaces)/)?[^/@]+/[^/@]+)(?:@(?P<revision>[^/]+))?(?P<rest>/.*)?")
_RETRIES: Any = {"max_retries": 3, "retry_timeout": timedelta(seconds=60)}
# The timeout is for each request. Addresses are https, unless the environment names an endpoint that is not.
_CLIENT: Any = {"connect_timeout": "10s", "timeout": "120s", "allow_http": True}
_PART = 32 * 1024**2  # bytes read per request, so that large files do not exceed the request's timeout
# Refused by the storage, or no credentials, when obstore asks the machine's own provider in vain.
_NOT_ALLOWED = re.compile(r"status code: 40[13]|://169\.254\.|://metadata\.|must be specified")
_REFUSED = {
    "s3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_SKIP_SIGNATURE=true for a public bucket; also "
    "AWS_REGION, and AWS_ENDPOINT_URL if it is not Amazon's",
    "gs": "set GOOGLE_APPLICATION_CREDENTIALS to the file of a service account",
    "az": "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
    "hf": "set HF_TOKEN, if the repository is private or gated",
}


@dataclass(frozen=True, slots=True)
class Stored:
    """An object below a folder: its path from there, its bytes, and a tag that changes with its content."""

    path: str
    size: int
    version: str | None  # the storage's id of this version
    tag: str


def is_address(text: str) -> bool:
    """Return whether a text begins like an address in object storage."""
    return text.startswith(tuple(f"{scheme}://" for scheme in SCHEMES))


def fetch_files(address: str, where: str) -> Sequence[Path]:
    """Fetch the file at an address, or all that match a pattern like s3://bucket/day/*.jsonl; return sorted copies.

    UserError if there is none or reading is not allowed, InfrastructureError if the storage does not answer.
    """
    pattern = _PATTERN.search(address)
    above, _, name = address[: pattern.start() if pattern else None].rpartition("/")
    folder = StoredFolder(above, where)
    if pattern is None:
        return [folder.fetch(folder.head(name))]
    wanted = name + address[pattern.start() :]
    matches = [one for one in folder.listed() if fnmatchcase(one.path, wanted)]
    own = sorted((one for one in matches if one.path.count("/") == wanted.count("/")), key=lambda one: one.path)
    if not own:
        raise UserError(Problem(f"no file matches {address}", where))
    return [folder.fetch(one) for one in own]


class StoredFolder:
    """A folder of files in object storage, and its copy on this machine.

    UserError for an invalid address, without the package, or on a server that may call its connections only.
    """

    def __init__(self, address: str, where: str) -> None:
        scheme, _, place = address.rstrip("/").partition("://")
        if scheme not in SCHEMES or not place or {"", ".", ".."} & set(place.split("/")) or _odd(place):
            raise UserError(
                Problem(f"{address!r} is not a folder in object storage", where, "write s3://BUCKET/FOLDER")
            )
        if Connections.of_process() is not None:
            what = "object storage cannot be restricted to this server's connections"
            raise UserError(Problem(what, where, "copy the files to this server, or upload them"))
        self.address = f"{scheme}://{place}"
        self.copy = Path.cwd() / _COPIES / scheme / place
        self._tags = Path.cwd() / _COPIES / "tags" / scheme / place
        self._scheme, self._where = scheme, where
        with self._telling():
            self._store = self._opened(place)

    def _opened(self, place: str) -> ObjectStore:
        with packages_of("objects", self._where):
            from obstore.store import HTTPStore, from_url
        if self._scheme != "hf":
            return from_url(self.address, client_options=_CLIENT, retry_config=_RETRIES)
        match = _HUB.fullmatch(place)
        if match is None:
            raise UserError(
                Problem(f"{self.address!r} is not a repository", self._where, "write hf://datasets/OWNER/NAME")
            )
        host, token = os.environ.get("HF_ENDPOINT", "https://huggingface.co"), os.environ.get("HF_TOKEN")
        url = f"{host}/{match['repository']}/resolve/{match['revision'] or 'main'}{match['rest'] or ''}"
        headers: Any = {"default_headers": {"Authorization": f"Bearer {token}"}} if token else {}
        return HTTPStore.from_url(url, client_options=_CLIENT | headers, retry_config=_RETRIES)

    def head(self, path: str) -> Stored:
        """Return the metadata of an object; UserError if it does not exist."""
        with self._telling(path):
            return _stored(self._store.head(path))

    def listed(self) -> Iterator[Stored]:
        """List all objects below it, in no order."""
        if self._scheme == "hf":
            hint = "name one file: hf://datasets/OWNER/NAME/PATH"
            raise UserError(Problem("files of Hugging Face are not listed", self._where, hint))
        with self._telling():
            for batch in self._store.list():  # pyright: ignore[reportUnknownMemberType] - of the other overload
                yield from map(_stored, batch)

    def fetch(self, one: Stored) -> Path:
        """Update the copy of an object atomically and return its path."""
        copy, tag = self.copy / one.path, self._tags / one.path
        if copy.is_file() and tag.is_file() and tag.read_text(encoding="utf-8") == one.tag:
            return copy
        try:
            private_folder(copy.parent)
            private_folder(tag.parent)
        except (FileExistsError, NotADirectoryError):
            what = f"{self.address} has an object and a folder of one name, which cannot be copied: {one.path}"
            raise UserError(Problem(what, self._where, "rename one of them")) from None
        with self._telling(one.path), completed(copy) as draft, draft.open("wb") as file:
            for begin in range(0, one.size, _PART):
                for chunk in self._chunks(one, begin):
                    file.write(chunk)
        write_atomically(tag, one.tag)
        return copy

    def _chunks(self, one: Stored, begin: int) -> Iterator[bytes]:
        """The content of a part. InfrastructureError if it is not as long as the storage says, before more is read."""
        size = min(_PART, one.size - begin)
        left = size
        for chunk in self._store.get(one.path, options=self._part(one, begin)).stream():
            left -= len(chunk)
            if left < 0:
                break
            yield chunk
        if left:
            how = "longer" if left < 0 else "shorter"
            what = f"{self.address}/{one.path} is {how} than its size of {one.size:,} bytes"
            raise InfrastructureError(what, "write it again; nothing was kept")

    def _part(self, one: Stored, begin: int) -> GetOptions:
        """Return the options that request a part of an object if it has not changed."""
        options: GetOptions = {}
        if one.size > _PART:
            options["range"] = (begin, min(begin + _PART, one.size))
        if one.version is not None and self._scheme != "hf":
            options["if_match"] = one.version
        return options

    def fetch_all(self, last: str) -> Path:
        """Update and return the folder's copy.

        UserError without the file `last`, which writers of a folder write last.
        """
        if not self.has(last):
            hint = f"{last} comes at last, so it may still be written; or name a folder that has one"
            raise UserError(Problem(f"there is no {last} in {self.address}", self._where, hint))
        for _ in range(2):
            begun = self.head(last)
            current = {one.path: one for one in self.listed()}
            for one in current.values():
                self.fetch(one)
            if self.head(last) == begun:
                self._forget_all_but(current)
                return self.copy
        raise InfrastructureError(f"{self.address} was written while it was read", "read it again")

    def _forget_all_but(self, current: Mapping[str, Stored]) -> None:
        """Delete copies of deleted objects; files written beside the copies stay."""
        known = {tag.relative_to(self._tags).as_posix() for tag in self._tags.rglob("*") if tag.is_file()}
        for path in known - set(current):
            (self.copy / path).unlink(missing_ok=True)
            (self._tags / path).unlink(missing_ok=True)

    def delete(self, path: str) -> None:
        """Delete an object if it exists."""
        with self._telling(path), suppress(FileNotFoundError):
            self._store.delete(path)

    def has(self, path: str) -> bool:
        """Return whether an object with this path exists."""
        with self._telling(path):
            try:
                self._store.head(path)
            except FileNotFoundError:
                return False
            return True

    def write(self, path: str, content: Path | bytes, *, new: bool = False) -> None:
        """Write an object atomically; UserError if `new` and it already exists."""
        from obstore.exceptions import AlreadyExistsError

        if self._scheme == "hf":
            hint = "name a bucket: s3://BUCKET/FOLDER"
            raise UserError(Problem("repositories of Hugging Face are only read", self._where, hint))
        with self._telling(path):
            try:
                self._store.put(path, content, mode="create" if new else "overwrite")
            except AlreadyExistsError:
                raise UserError(Problem("somebody else has just written this", f"{self.address}/{path}")) from None

    @contextmanager
    def _telling(self, path: str = "") -> Generator[None]:
        """Turn obstore's errors into those of evalflow."""
        place = f"{self.address}/{path}".rstrip("/")
        try:
            yield
        except FileNotFoundError as error:
            missing = "bucket" if "NoSuchBucket" in str(error) or "ContainerNotFound" in str(error) else "object"
            raise UserError(Problem(f"there is no such {missing}: {place}", self._where)) from None
        except Exception as error:
            if not type(error).__module__.startswith("obstore"):
                raise
            raise self._explained(place, str(error)) from None

    def _explained(self, place: str, text: str) -> UserError | InfrastructureError:
        what = text.partition("\n\nDebug source")[0].strip()
        if "NoSuchBucket" in text or "ContainerNotFound" in text:
            return UserError(Problem(f"there is no such bucket: {place}", self._where))
        if _NOT_ALLOWED.search(text):
            return UserError(Problem(f"{place} was refused: {what}", self._where, _REFUSED[self._scheme]))
        return InfrastructureError(f"{place}: {what}", "try it again; files that were copied are kept")


def _odd(place: str) -> bool:
    return any(character in place for character in "\\\0*?#[")


def _stored(meta: Mapping[str, Any]) -> Stored:
    path = str(meta["path"])
    if _odd(path) or {"", ".", ".."} & set(path.split("/")):  # a copy of it could lie anywhere
        raise UserError(Problem(f"{path!r} is not the name of a file", hint="rename the object"))
    return Stored(path, meta["size"], meta["e_tag"], f"{meta['e_tag']} {meta['last_modified']} {meta['size']}")
