#include "launcher/output/output_lines.hpp"

#include <algorithm>

#include "rendezvous/control/control_message.hpp"
#include "rendezvous/job/failure_reason.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using Lines = std::vector<std::string>;

std::string numbered(int first, int last) {
    std::string text;
    for (int i = first; i <= last; ++i) text += "line " + std::to_string(i) + "\n";
    return text;
}

}  // namespace

TEST_CASE("the last lines of many blocks, small or large") {
    const int step = GENERATE(1, 3, 19, 20, 21, 500);
    CAPTURE(step);
    LastLines last;
    for (int i = 0; i < 500; i += step) last.add(numbered(i, std::min(i + step, 500) - 1));
    const Lines lines = last.lines();
    REQUIRE(lines.size() == kMaxLastLines);
    CHECK(lines.front() == "line 480");
    CHECK(lines.back() == "line 499");
}

TEST_CASE("few lines, empty ones, carriage returns and an unfinished one") {
    LastLines last;
    CHECK(last.lines().empty());
    CHECK(last.lines("only this") == Lines{"only this"});
    last.add("one\n\ntwo\r\n");
    CHECK(last.lines() == Lines{"one", "", "two"});
    CHECK(last.lines("thr") == Lines{"one", "", "two", "thr"});
    last.add("\n");
    CHECK(last.lines() == Lines{"one", "", "two", ""});
}

TEST_CASE("an unfinished line counts among the twenty") {
    LastLines last;
    last.add(numbered(1, 20));
    const Lines lines = last.lines("rest");
    REQUIRE(lines.size() == kMaxLastLines);
    CHECK(lines.front() == "line 2");
    CHECK(lines.back() == "rest");
}

TEST_CASE("long lines are cut, also those that come in pieces") {
    LastLines last;
    last.add("before\n" + std::string(3 * kMaxLastLineText, 'x'));
    last.add(std::string(50, 'y') + "\nnext\n");
    CHECK(last.lines() == Lines{"before", std::string(kMaxLastLineText, 'x'), "next"});
    LastLines pieces;
    pieces.add("ab");
    pieces.add("cd");
    CHECK(pieces.lines("ef") == Lines{"abcdef"});
    pieces.add("ef\ngh\n");
    CHECK(pieces.lines() == Lines{"abcdef", "gh"});
}

// What programs print where the reason stands above its frames; %F is 60 of these, REASON in what has to be
// shown.
struct Form {
    const char* name;
    std::string head;
    std::string frame;
    std::string end;
};

TEST_CASE("a reason that stands above its frames is kept, and how many lines are left out") {
    const auto form = GENERATE(
        Form{"Java", "Exception in thread \"main\" X: REASON\n", "\tat a.b(C.java:1)\n", ""},
        Form{"Java, bare", "x.y.REASONException\n", "\tat a.b(C.java:1)\n", ""},
        Form{"Go", "panic: REASON\n\ngoroutine 1 [running]:\n",
             "main.f(0x1, {0x2, 0x3})\n\t/x/y.go:4 +0x1d\n", "exit status 2\n"},
        Form{"Rust", "thread 'main' panicked at src/main.rs:2:5:\nREASON\nstack backtrace:\n",
             "   0: rust_begin_unwind\n             at /rustc/std.rs:1\n", ""},
        Form{"Node", "/x.js:1\nthrow new Error(\"REASON\")\n^\n\nError: REASON\n",
             "    at Object.<anonymous> (/x.js:1:7)\n", "\nNode.js v22.1.0\n"},
        Form{"Julia", "ERROR: LoadError: REASON\nStacktrace:\n",
             "  [1] error(s::String)\n    @ Base ./error.jl:35\n", "in expression starting at /x.jl:1\n"},
        Form{"NCCL's watchdog",
             "[rank0]:[E1126 x.cpp:1] Process group watchdog thread terminated with exception: REASON\n"
             "Exception raised from check at /x.cpp:1 (most recent call first):\n",
             "frame #7: c10d::f() + 0x1 (0x7f in /x.so)\n", ""},
        Form{"C++ under the fault handler",
             "terminate called after throwing an instance of 'std::runtime_error'\n  what():  REASON\n"
             "Fatal Python error: Aborted\n\nThread 0x00007f (most recent call first):\n",
             "  File \"/x.py\", line 1 in f\n", "\nExtension modules: numpy (total: 1)\n"},
        Form{"a message of many lines", "[rank1]: RuntimeError: REASON\n", "[rank1]: \tsize mismatch for x\n",
             ""},
        Form{
            "address sanitizer", "==1==ERROR: AddressSanitizer: REASON\n", "    #0 0x1 in main x.c:1\n",
            "SUMMARY: AddressSanitizer: x\nShadow bytes around the buggy address:\n  0x1: 00\n==1==ABORTING\n"},
        Form{"glog",
             "F1126 12:00:00.1 1 x.cc:1] Check failed: a == b REASON\n*** Check failure stack trace: ***\n",
             "    @     0x7f  f()\n", ""},
        Form{"C#", "Unhandled exception. System.Exception: REASON\n", "   at X.Main() in /x.cs:line 1\n", ""},
        Form{"Ruby", "x.rb:1:in `f': REASON (RuntimeError)\n", "\tfrom x.rb:2:in `<main>'\n", ""},
        Form{"Haskell, of which no word is known", "x: REASON\nCallStack (from HasCallStack):\n",
             "  error, called at x.hs:1:8 in main:Main\n", ""},
        Form{"Lua, of which no word is known", "lua: x.lua:1: REASON\nstack traceback:\n", "\t[C]: in ?\n",
             ""},
        Form{"Perl, of which no word is known", "REASON at x.pl line 1.\n",
             "\tmain::f(1) called at x.pl line 1\n", ""},
        Form{"UCX", "[gpu01:1:0:1] Caught signal 11 (REASON)\n==== backtrace (tid: 1) ====\n",
             " 0  /x.so(f+0x1) [0x7f]\n", "=================================\n"},
        Form{"a log of levels", "12:00 ERROR root - REASON\n", "    a legend\n", ""},
        Form{"glibc's map", "*** Error in `./a': free(): REASON: 0x1 ***\n======= Memory map: ========\n",
             "7f00-7f01 r-xp 00000000 08:01 1 /lib/libc.so\n", ""});
    CAPTURE(form.name);
    LastLines last;
    last.add("an error: of old times\n" + numbered(1, 30) + form.head);
    for (int i = 0; i < 60; ++i) last.add(form.frame);
    last.add(form.end);
    const Lines lines = last.lines();
    CHECK(lines.size() <= kMaxLastLines);
    const auto has = [&lines](std::string_view text) {
        return std::find_if(lines.begin(), lines.end(),
                            [text](const std::string& line) { return line.find(text) != std::string::npos; });
    };
    CHECK(has("REASON") < has(" lines left out ..."));
    CHECK(has(" lines left out ...") < lines.begin() + FailureReason::kMaxLines + 1);
    CHECK(has("line 30") == lines.end());
    CHECK((form.frame + form.end).ends_with(lines.back() + "\n"));

    // A report that has less room reads the same.
    const Lines fewer = last_words({}, lines, 10);
    CHECK(fewer.size() == 10);
    CHECK(fewer.front() == lines.front());
    CHECK(fewer.back() == lines.back());
}

TEST_CASE("where the reason is among the last lines, they stay as they are") {
    LastLines last;
    last.add("ERROR: of old times\n" + numbered(1, 10) + "Traceback (most recent call last):\n");
    for (int i = 0; i < 60; ++i) last.add("  File \"x.py\", line 1, in f\n");
    last.add("ValueError: REASON\n");
    REQUIRE(last.lines().size() == kMaxLastLines);
    CHECK(last.lines().front() == "  File \"x.py\", line 1, in f");
    CHECK(last.lines().back() == "ValueError: REASON");
}

TEST_CASE("what is measured is no failure, and an old one is forgotten") {
    LastLines last;
    last.add("validation error: 0.03\n" + numbered(1, 30));
    CHECK(last.lines().front() == "line 11");
    last.add("ERROR: tries again\n" + numbered(1, 100));
    CHECK(last.lines().front() == "ERROR: tries again");
    last.add(numbered(101, 300));
    CHECK(last.lines().front() == "line 281");
}

TEST_CASE("the lines that are left out are counted once, however often it is cut") {
    Lines lines{"panic: REASON"};
    for (int i = 0; i < 99; ++i) lines.push_back("\tframe");
    const Lines some = last_words({}, lines, 20);
    CHECK(some[1] == "... 81 lines left out ...");
    CHECK(last_words({}, some, 10)[1] == "... 91 lines left out ...");
    const Lines plain = last_words({}, Lines(50, "x"), 10);
    CHECK(plain.front() == "... 41 lines left out ...");
    CHECK(last_words({}, plain, 8).front() == "... 43 lines left out ...");
}

}  // namespace ddprun
