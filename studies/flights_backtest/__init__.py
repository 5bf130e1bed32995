"""Would bounds from past days have held on the flights of 2013?"""
