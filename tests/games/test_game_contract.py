"""Histories and symmetry tables."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.games.contract import History, board_symmetries


def test_history_appends_to_the_rows_named_and_selects_copies() -> None:
    history = History.empty(3, 4)
    history.append(np.array([0, 2]), np.array([5, 6], np.uint64))
    history.append(np.array([2]), np.array([7], np.uint64))
    assert history.lengths.tolist() == [1, 0, 2]
    assert history.keys[2, :2].tolist() == [6, 7]
    chosen = history.select(np.array([2, 0, 2]))
    assert chosen.lengths.tolist() == [2, 1, 2]
    chosen.append(np.array([0]), np.array([8], np.uint64))
    assert history.lengths.tolist() == [1, 0, 2] and history.keys[2, 2] == 0


@pytest.mark.parametrize(("height", "width", "count"), [(3, 3, 8), (5, 5, 8), (2, 3, 4)])
def test_board_symmetries_move_points_as_whole_boards(height: int, width: int, count: int) -> None:
    symmetries = board_symmetries(height, width, extra_actions=2)
    assert symmetries.count == count
    board = np.arange(height * width).reshape(height, width)
    flips = {board.tobytes(), board[::-1].tobytes(), board[:, ::-1].tobytes(), board[::-1, ::-1].tobytes()}
    images = set()
    for k in range(count):
        image = np.empty(height * width, board.dtype)
        image[symmetries.points[k]] = board.ravel()
        images.add(image.reshape(height, width).tobytes())
        assert (symmetries.actions[k] == [*symmetries.points[k], height * width, height * width + 1]).all()
    assert flips <= images and len(images) == count
