"""How fast are answers from tables of pages, and what does publishing add to a batch?"""
