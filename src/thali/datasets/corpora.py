r"""Documents with known topics, of words that can be read.

    shares of document d ~ Dirichlet(a, …, a),    length of d ~ 1 + Poisson(length − 1)
    topic of a word ~ shares of its document,     word ~ words of its topic

The words of a topic are its own, the r-th with weight 1/(r + 1), and a tenth of them are words that
all topics have.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from thali.datasets.dataset import RandomState, check_size
from thali.settings import generator, positive_number, whole_number

OWN = {
    "kitchen": "rice lentil curry spice onion pan oven bread salt pepper butter bowl",
    "sport": "goal ball team match player coach score league referee stadium cup fan",
    "weather": "rain cloud wind storm sun snow frost thunder forecast fog breeze hail",
    "music": "song guitar drum melody chorus concert piano singer violin tune band album",
    "sea": "boat wave harbor sail fish anchor tide island captain shell reef rope",
    "garden": "rose soil seed leaf root shovel tulip hedge lawn bee compost pond",
}
COMMON = "people day year time place thing story week world hand hour word"
SHARED = 0.1  # of a topic's words, those that all topics have
LONGEST = 10**6  # words of a document


class Corpus(NamedTuple):
    """Documents with the topics that made them.

    Attributes
    ----------
    X : scipy.sparse.csr_array of shape (D, V)
        How often each document has each word.
    words : list of str
        What the columns stand for.
    topics : array of shape (K, V)
        The words of each topic: rows sum to one.
    shares : array of shape (D, K)
        The share of each topic in each document: rows sum to one.
    topic_names : list of str
        What each topic is about.
    name : str
        What these data are.

    Examples
    --------
    >>> from thali import datasets
    >>> data = datasets.topics(n=5)
    >>> data.X.shape, data.topics.shape, data.shares.shape
    ((5, 84), (6, 84), (5, 6))
    """

    X: csr_array
    words: list[str]
    topics: NDArray[np.float64]
    shares: NDArray[np.float64]
    topic_names: list[str]
    name: str


def topics(
    n: int = 100,
    length: int = 60,
    k: int = 6,
    spread: float = 0.1,
    random_state: RandomState = 0,
) -> Corpus:
    """Documents of a stated number of topics, one to six, whose words can be read.

    Parameters
    ----------
    n : int
        How many documents there are.
    length : int
        How many words a document has on average.
    k : int
        How many topics there are.
    spread : float
        a of the Dirichlet distribution of shares: the smaller, the fewer topics a document has.
    random_state : int, Generator or None
        Seed.

    Examples
    --------
    >>> from thali import datasets
    >>> data = datasets.topics(n=20, k=2)
    >>> data.topic_names, [data.words[v] for v in (-data.topics[0]).argsort()[:3]]
    (['kitchen', 'sport'], ['rice', 'lentil', 'curry'])
    """
    whole_number("topics", "n", n, 1)
    whole_number("topics", "length", length, 1, LONGEST)
    whole_number("topics", "k", k, 1, len(OWN))
    positive_number("topics", "spread", spread)
    rng = generator("topics", random_state)
    names, words, theta = _planted(int(k))
    check_size("topics", n, len(words), int(k))
    shares = rng.dirichlet(np.full(len(names), float(spread)), size=n)
    lengths = 1 + rng.poisson(length - 1, size=n)
    by_topic = rng.multinomial(lengths, shares)
    X = sum(rng.multinomial(by_topic[:, t], theta[t]) for t in range(len(names)))
    title = f"{n} documents of {len(names)} topics"
    return Corpus(csr_array(np.asarray(X, float)), words, theta, shares, names, title)


def _planted(k: int) -> tuple[list[str], list[str], NDArray[np.float64]]:
    """The names of k topics, the words of them all in alphabetic order, and their shares."""
    names = list(OWN)[:k]
    each, common = [OWN[name].split() for name in names], COMMON.split()
    words = sorted({word for own in each for word in own} | set(common))
    place = {word: v for v, word in enumerate(words)}
    theta = np.zeros((k, len(words)))
    for t, own in enumerate(each):
        weights = 1.0 / np.arange(2.0, len(own) + 2.0)
        theta[t, [place[word] for word in own]] = (1.0 - SHARED) * weights / weights.sum()
        theta[t, [place[word] for word in common]] = SHARED / len(common)
    return names, words, theta
