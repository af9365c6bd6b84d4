"""Lists of the API: pages, and rows that are written without a model."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated, Final, Generic, NotRequired, TypeVar

import msgspec
from fastapi import Depends, Query, Response
from typing_extensions import TypedDict

from heliograph.management.web.errors import ApiError

T = TypeVar("T")

LIMIT_MAX: Final = 10_000
ROWS_BYTES: Final = 8 << 20  # of an answer, before more are asked for: clients may make each row 100 KB long
PAGE_BYTES: Final = 16 << 20  # of an answer that has to have as many rows as were asked for
_LIMIT: Final = 100
PAGE_MAX: Final = 1_000_000_000  # no list has as many


class PageMeta(TypedDict):
    """Which part of a list a page is.

    Attributes:
        page: From 1 on.
        limit: Rows of a page.
        hasnext: Whether more rows come after it.
        count: How many rows match altogether; left out where that is not known.
    """

    page: int
    limit: int
    hasnext: bool
    count: NotRequired[int]


class PageOf(TypedDict, Generic[T]):
    data: list[T]
    meta: PageMeta


class CursorMeta(TypedDict):
    """Where a page of a list ends.

    Attributes:
        limit: Rows of a page.
        hasnext: Whether more rows come after it.
        count: How many rows match altogether; left out where that is not known.
        cursor: What the request for the next page gives; left out of the last page.
        sort: What the rows are in the order of, where the request says it.
    """

    limit: int
    hasnext: bool
    count: NotRequired[int]
    cursor: NotRequired[str]
    sort: NotRequired[str]


@dataclass(frozen=True, slots=True)
class Page:
    """Which part of a list is wanted.

    Attributes:
        page: From 1 on.
        limit: Rows of a page.
    """

    page: int
    limit: int

    @property
    def skip(self) -> int:
        """How many rows come before it."""
        return (self.page - 1) * self.limit


def _page(
    page: Annotated[int, Query(ge=1, le=PAGE_MAX, description="Page number, from 1 on")] = 1,
    limit: Annotated[int, Query(ge=1, le=LIMIT_MAX, description="Rows of a page")] = _LIMIT,
) -> Page:
    return Page(page, limit)


PageDep = Annotated[Page, Depends(_page)]


def json_response(value: object, status: int = 200) -> Response:
    """An answer that no model goes through."""
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def page_response(rows: Sequence[object], page: Page, count: int | None, has_next: bool) -> Response:
    """A page of a list.

    Args:
        rows: Those of the page.
        count: How many match altogether; None where that is not known.
        has_next: Whether there are more behind it.
    """
    meta: PageMeta = {"page": page.page, "limit": page.limit, "hasnext": has_next}
    if count is not None:
        meta["count"] = count
    return json_response({"data": rows, "meta": meta})


def page_of(rows: Sequence[T], page: Page) -> Response:
    """A page of a list that is known whole."""
    end = page.skip + page.limit
    return page_response(rows[page.skip : end], page, len(rows), end < len(rows))


async def take_rows(slices: AsyncIterator[list[T]], limit: int, bytes_max: int = ROWS_BYTES) -> tuple[list[T], bool]:
    """The first rows of a list that comes in slices, and whether there are more.

    Where they are long there may be more behind fewer than the limit. The rest of the list is not asked for.

    Args:
        bytes_max: Of the rows that are taken, before more are.
    """
    rows: list[T] = []
    size = 0
    async with aclosing(slices):  # type: ignore[type-var]  # it is a generator
        async for part in slices:
            if part and size >= bytes_max:
                return rows, True
            rows += part
            size += len(msgspec.msgpack.encode(part))
            if len(rows) > limit:
                break
    return rows[:limit], len(rows) > limit


async def take_whole_page(slices: AsyncIterator[list[T]], limit: int) -> tuple[list[T], bool]:
    """The same where the next page begins behind as many rows as the limit says.

    Raises:
        ApiError: 400, so many rows are too long for one answer.
    """
    rows, has_next = await take_rows(slices, limit, PAGE_BYTES)
    if has_next and len(rows) < limit:
        text = f"limit: {limit} of these rows are too much for one answer, {len(rows)} are not; ask for fewer"
        raise ApiError(400, "BAD_REQUEST", text)
    return rows, has_next


async def take_page(slices: AsyncIterator[list[T]], page: Page) -> tuple[list[T], bool]:
    """The rows of a page of a list that comes in slices, and whether there are more.

    The rest of the list is not asked for.

    Raises:
        ApiError: 400, so many rows are too long for one answer.
    """
    return await take_whole_page(_behind(slices, page.skip), page.limit)


async def _behind(slices: AsyncIterator[list[T]], skip: int) -> AsyncGenerator[list[T], None]:
    async with aclosing(slices):  # type: ignore[type-var]  # it is a generator
        async for part in slices:
            yield part[skip:]
            skip = max(0, skip - len(part))
