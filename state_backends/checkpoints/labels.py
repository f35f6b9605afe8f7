"""The labels of buckets in Spark's state store: one for each shuffle partition, as Spark's hash places them."""


def partition_labels(count: int) -> list[int]:
    """Return one bucket label per shuffle partition, such that Spark's hash puts each on a different partition."""
    labels: dict[int, int] = {}
    candidate = 0
    while len(labels) < count:
        labels.setdefault(spark_hash(candidate) % count, candidate)
        candidate += 1
    return [labels[partition] for partition in range(count)]


def spark_hash(number: int) -> int:
    """Return Spark's hash of an int column: Murmur3 x86 32-bit of its 4 bytes with seed 42, signed."""
    k = number * 0xCC9E2D51 & 0xFFFFFFFF
    k = _rotate(k, 15) * 0x1B873593 & 0xFFFFFFFF
    h = _rotate(42 ^ k, 13) * 5 + 0xE6546B64 & 0xFFFFFFFF
    h ^= 4
    h = (h ^ h >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    h = (h ^ h >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    h ^= h >> 16
    return h - (h >> 31 << 32)


def _rotate(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & 0xFFFFFFFF


def bucket_number(label: int, count: int | None) -> int:
    """Return the number of a bucket, from 0, as messages about workers have it.

    Args:
        label: the label of the bucket.
        count: number of buckets of its query; None if the state does not say it, whose labels are the numbers.
    """
    labels = [] if count is None else partition_labels(count)
    return labels.index(label) if label in labels else label
