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
    reason = "SKIP " name ": no reason given"
}
# A test that could not be started is no skip.
/<skipped / && !/message="SKIP_/ { status = "fail" }
# The test's own word for it, wherever in its output it stands.
status == "notrun" && match($0, /SKIP .*: /) {
    line = substr($0, RSTART)
    sub(/<\/system-out>.*/, "", line)
    reason = plain(line)
}
/<\/testcase>/ {
    if (status == "run") {
        passed++
    } else if (status == "notrun") {
        skipped++
        print reason
    } else {
        failed++
        print "FAIL " name
    }
}
END { printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped }
