"""The dashboards, a file each, and one literal list of them."""

from dashboards.generator.board import Board
from dashboards.generator.boards.engine import ENGINE
from dashboards.generator.boards.health import HEALTH
from dashboards.generator.boards.live import LIVE
from dashboards.generator.boards.overview import OVERVIEW
from dashboards.generator.boards.quality import QUALITY

BOARDS: tuple[Board, ...] = (OVERVIEW, QUALITY, LIVE, ENGINE, HEALTH)
