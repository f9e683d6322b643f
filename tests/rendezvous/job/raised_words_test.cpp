#include "rendezvous/job/raised_words.hpp"

#include <sstream>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

const std::string kStack =
    "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n    f()\n";

RaisedWords words_of(const std::string& text) {
    RaisedWords raised;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) raised.note(line);
    return raised;
}

}  // namespace

TEST_CASE("raised words: what a program shows before it ends") {
    struct Case {
        std::string text;
        std::string words;
        std::size_t count;
    };
    const std::vector<Case> cases = {
        {"", "", 0},
        {"step 3\nValueError: only a word\n", "", 0},
        {kStack, "", 1},
        {kStack + "ValueError: bad batch\nbye\n", "ValueError: bad batch", 1},
        {kStack + "\n    \nKeyError: 'x'\n", "KeyError: 'x'", 1},
        {"[rank2]: " + kStack + "[rank2]: RuntimeError: late\n", "RuntimeError: late", 1},
        // a chain: the first one brought about the others
        {kStack + "KeyError: 1\n\nDuring handling of the above exception, another exception occurred:\n\n" +
             kStack + "ValueError: 2\n",
         "KeyError: 1", 1},
        {kStack + "KeyError: 1\n\nThe above exception was the direct cause of the following exception:\n\n" +
             kStack + "ValueError: 2\n",
         "KeyError: 1", 1},
        // one that was caught, and a later one
        {kStack + "KeyError: 1\n" + kStack + "ValueError: 2\n", "ValueError: 2", 2},
        // what ends no program
        {kStack + "KeyError: 1\nException ignored in: <function f>\n" + kStack + "ConnectionError: 2\n",
         "KeyError: 1", 1},
        {"Exception in thread Thread-1 (f):\n" + kStack + "ValueError: 2\n", "", 0},
        {kStack + "KeyboardInterrupt\n", "", 1},
        {"terminate called after throwing an instance of 'std::logic_error'\n  what():  no way\nAborted\n",
         "no way", 1},
        {"terminate called without an active exception\nAborted\n",
         "terminate called without an active exception", 1},
        {"Fatal Python error: Segmentation fault\n\nCurrent thread\n",
         "Fatal Python error: Segmentation fault", 1},
        {"panic: out of range\n\ngoroutine 1 [running]:\n", "panic: out of range", 1},
        {"thread 'main' panicked at src/main.rs:2:5:\nno\n", "thread 'main' panicked at src/main.rs:2:5:", 1},
    };
    for (const Case& one : cases) {
        CAPTURE(one.text);
        const RaisedWords raised = words_of(one.text);
        CHECK(raised.text() == one.words);
        CHECK(raised.count() == one.count);
    }
    CHECK(words_of(kStack + std::string(10'000, 'x') + "\n").text().size() == RaisedWords::kMaxText);
}

TEST_CASE("raised words: a broken connection is told from a failure of one's own") {
    for (
        const char* words :
        {"ConnectionResetError: [Errno 104] Connection reset by peer",
         "BrokenPipeError: [Errno 32] Broken pipe",
         "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:598] Connection closed by peer [127.0.0.1]:4",
         "EOFError", "ConnectionRefusedError: [Errno 111] Connection refused",
         "torch.distributed.DistBackendError: NCCL error: remote process exited or there was a network error",
         "asyncio.exceptions.IncompleteReadError: 0 bytes read on a total of 4 expected bytes"})
        CHECK(is_lost_connection(words));
    for (const char* words : {"", "ValueError: bad batch", "RuntimeError: CUDA error: out of memory",
                              "KeyError: 'peer'", "AssertionError: loss is nan"})
        CHECK_FALSE(is_lost_connection(words));
}

}  // namespace ddprun
