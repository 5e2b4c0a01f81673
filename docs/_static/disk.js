// A page from disk may not read another, so its search lists titles alone.
DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = location.protocol !== "file:";
