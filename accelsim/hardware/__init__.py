"""What each hardware unit does in time: numbers in, numbers out. Imports nothing of the rooms above."""
