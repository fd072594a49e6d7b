"""Writes ships.csv: 900 ships that never were, for the lessons on tables.

    python3 assets/data/ships.py > assets/data/ships.csv

The same seed writes the same file. Sizes follow from the type with some scatter; the deadweight follows from the sizes, the hull
and the type, and no single column tells it. Some values are missing, as in tables that people keep.
"""

import math
import random

random.seed(1876)  # The year of the Merchant Shipping Act that made the line law.

# Name, length and its scatter, length over beam, length over draught, crew at 50 m, block coefficient.
TYPES = [
    ("barge", 48, 0.28, 4.6, 19, 4, 0.86),
    ("clipper", 66, 0.14, 6.3, 11, 34, 0.60),
    ("ferry", 62, 0.30, 4.8, 17, 17, 0.58),
    ("tanker", 98, 0.34, 6.2, 14, 15, 0.80),
    ("trawler", 34, 0.26, 4.2, 9.5, 15, 0.64),
]
HULLS = {"wood": 0.42, "iron": 0.36, "steel": 0.29}
PORTS = ["Aberdeen", "Bristol", "Cardiff", "Hull", "Leith", "London", "Whitby", "Liverpool"]


def scattered(mean, share):
    return mean * math.exp(random.gauss(0, share))


def ship(number):
    kind, length, scatter, slender, shallow, crew, block = random.choice(TYPES)
    length = scattered(length, scatter)
    beam = scattered(length / slender, 0.07)
    draught = scattered(length / shallow, 0.09)
    built = random.randint(1855, 1914)
    steel = min(max((built - 1872) / 34, 0.02), 0.95)
    hull = random.choices(list(HULLS), [max(0.75 - steel, 0.06) + (0.5 if kind == "clipper" else 0), 0.45, steel])[0]
    displaced = 1.025 * length * beam * draught * block
    deadweight = scattered(displaced * (1 - HULLS[hull]), 0.05)
    crew = max(2, round(scattered(crew * (length / 50) ** 0.7, 0.22)))
    row = {
        "ship": str(number),
        "port": random.choice(PORTS),
        "built": str(built),
        "hull": hull,
        "length_m": f"{length:.1f}",
        "beam_m": f"{beam:.1f}",
        "draught_m": f"{draught:.2f}",
        "crew": str(crew),
        "deadweight_t": f"{deadweight:.0f}",
        "type": kind,
    }
    for name, share in [("crew", 0.04), ("draught_m", 0.03), ("hull", 0.02)]:
        if random.random() < share:
            row[name] = ""
    return row


ships = [ship(number) for number in range(1, 901)]
print(",".join(ships[0]))
for row in ships:
    print(",".join(row.values()))
