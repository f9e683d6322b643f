#include "launcher/output/output_route.hpp"

#include <algorithm>
#include <mutex>
#include <set>
#include <thread>

#include "tests/launcher/output/pump_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using Told = std::vector<std::string>;

// What a route tells of the bytes that it takes in pieces of this size.
Told lines_told(std::string_view bytes, std::size_t piece) {
    Told told;
    OutputRouteParts parts;
    parts.on_line = [&told](std::string_view line) { told.emplace_back(line); };
    OutputRoute route(std::move(parts));
    for (; !bytes.empty(); bytes.remove_prefix(std::min(piece, bytes.size())))
        route.take(bytes.substr(0, piece));
    route.end();
    return told;
}

}  // namespace

TEST_CASE("a route tells of each line once, as files have it, in whatever pieces it comes") {
    const std::size_t piece = GENERATE(1, 2, 7, 1000);
    CAPTURE(piece);
    CHECK(lines_told("one\ntwo\r\n\n30%\r60%\r90%\nlast", piece) == Told{"one", "two", "", "90%", "last"});
    CHECK(lines_told("one\n", piece) == Told{"one"});
    CHECK(lines_told("", piece).empty());
}

TEST_CASE("of a line that is too long to be held its beginning is told, once, before it has ended") {
    const std::string beginning(LineSplitter::kMaxLine, 'x');
    const std::size_t piece = GENERATE(1000, LineSplitter::kMaxLine / 2, LineSplitter::kMaxLine + 1);
    CAPTURE(piece);
    std::string bytes = "before\n" + beginning;
    CHECK(lines_told(bytes + "\nafter\n", piece) == Told{"before", beginning, "after"});
    for (int more = 0; more < 3; ++more) bytes += beginning;
    CHECK(lines_told(bytes, piece) == Told{"before", beginning});
    CHECK(lines_told(bytes + "\nafter\n\nlast", piece) == Told{"before", beginning, "after", "", "last"});
}

TEST_CASE("a pump tells of all lines of its workers on its own thread, of those that go nowhere as well") {
    std::mutex mutex;
    std::set<std::string> told;
    std::set<std::thread::id> threads;
    OutputOptions options;
    options.redirects = "0:3";
    options.local_ranks_filter = "0";
    PumpRun run(options, [&](int rank, OutputStream stream, std::string_view text) {
        const std::lock_guard lock(mutex);
        threads.insert(std::this_thread::get_id());
        told.insert(std::to_string(rank) + " " + std::string(stream_name(stream)) + " " + std::string(text));
    });
    run.start(0, {"out", "to a file\\n", "err", "half"});
    run.start(1, {"out", "to nowhere\\n"});
    run.end();
    CHECK(told == std::set<std::string>{"100 stdout to a file", "100 stderr half", "101 stdout to nowhere"});
    CHECK(threads.size() == 1);
    CHECK_FALSE(threads.contains(std::this_thread::get_id()));
    CHECK(run.out.all().empty());
}

}  // namespace ddprun
