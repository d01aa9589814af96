"""How well and how fast it works: niom eval and niom bench. No other floor imports this."""
