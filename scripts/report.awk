# SPDX-License-Identifier: Apache-2.0
# Reads a ctest JUnit report: a line "SKIP name: reason" for each skipped test, "FAIL name" for
# each failed one, then the totals.

function plain(text) {
    gsub(/&lt;/, "<", text)
    gsub(/&gt;/, ">", text)
    gsub(/&quot;/, "\"", text)
    gsub(/&apos;/, "'", text)
    gsub(/&amp;/, "\\&", text)
    return text
}

/<testcase / {
    match($0, / name="[^"]*"/)
    name = plain(substr($0, RSTART + 7, RLENGTH - 8))
    match($0, / status="[^"]*"/)
    status = substr($0, RSTART + 9, RLENGTH - 10)
    reason = "not run"
    if (status == "run") passed++
    else if (status == "fail") failed++
    else skipped++
}
# What the test said about it: the first line that begins with SKIP.
status != "run" && status != "fail" && match($0, /SKIP:? /) {
    reason = plain(substr($0, RSTART + RLENGTH))
    sub(/<\/system-out>.*/, "", reason)
    status = "told"
    reasons[name] = reason
}
/<\/testcase>/ {
    if (status == "fail") print "FAIL " name
    else if (status != "run") print "SKIP " name ": " reason
}
END { printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped }
