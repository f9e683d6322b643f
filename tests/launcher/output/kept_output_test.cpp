#include "launcher/output/kept_output.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <map>
#include <random>
#include <utility>

#include "launcher/output/kept_readers.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

constexpr std::size_t kAll = 1 << 30;

std::string texts_of(const KeptPiece& piece) {
    std::string text;
    for (const KeptBlock& block : piece.blocks) text += std::to_string(block.rank) + ":" + block.text;
    return text;
}

KeptReaders readers_of(boost::asio::io_context& context, const KeptOutput& kept) {
    return {context.get_executor(),
            [&kept](const KeptQuestion& asked, std::size_t most) {
                return kept.read(asked.rank, asked.from, most);
            },
            [&kept] { return kept.end(); }};
}

}  // namespace

TEST_CASE("kept output: lines come back in the order in which they came, of one rank or of all") {
    KeptOutput kept;
    kept.take(1, OutputStream::out, "a\n", 10);
    kept.take(0, OutputStream::err, "b\n", 11);
    kept.take(1, OutputStream::out, "c\nd\n", 12);
    const KeptPiece all = kept.read({}, 0, kAll);
    CHECK(all ==
          KeptPiece{
              8, true, {{1, "stdout", 10, "a\n"}, {0, "stderr", 11, "b\n"}, {1, "stdout", 12, "c\nd\n", 2}}});
    CHECK(texts_of(kept.read(1, 0, kAll)) == "1:a\n1:c\nd\n");
    CHECK(texts_of(kept.read(2, 0, kAll)).empty());
    CHECK(kept.read(2, 0, kAll).next == 8);
    CHECK(texts_of(kept.read({}, 2, kAll)) == "0:b\n1:c\nd\n");
    CHECK(texts_of(kept.read({}, 8, kAll)).empty());
    CHECK(kept.read({}, 99, kAll).next == 99);
}

TEST_CASE("kept output: what comes at once is one block, and a reader in its midst gets the rest") {
    KeptOutput kept;
    kept.take(0, OutputStream::out, "a\n", 10);
    const std::uint64_t next = kept.read({}, 0, kAll).next;
    kept.take(0, OutputStream::out, "b\n", 10);
    CHECK(kept.read({}, 0, kAll).blocks.size() == 1);
    CHECK(texts_of(kept.read({}, next, kAll)) == "0:b\n");
    kept.take(0, OutputStream::err, "c\n", 10);
    kept.take(1, OutputStream::out, "d\n", 10);
    kept.take(0, OutputStream::err, "e\n", 10);  // another rank's was between
    kept.take(0, OutputStream::err, "f\n", 11);
    CHECK(kept.read({}, 0, kAll).blocks.size() == 5);
    CHECK(texts_of(kept.read({}, 0, kAll)) == "0:a\nb\n0:c\n1:d\n0:e\n0:f\n");
}

TEST_CASE("kept output: of each rank the last lines are kept, whatever the others print") {
    KeptOutput kept;
    kept.take(0, OutputStream::out, "first\n", 1);
    const std::string line(1000, 'x');
    for (int i = 0; i < 5000; ++i) kept.take(1, OutputStream::out, line, 2 + i);
    CHECK(texts_of(kept.read(0, 0, kAll)) == "0:first\n");
    const std::size_t left = kept.read(1, 0, kAll).blocks.size();
    CHECK(left == KeptOutput::kMostOfRank / (line.size() + KeptOutput::kBlockCost));
    const std::string huge(2 * KeptOutput::kMostOfRank, 'y');
    kept.take(2, OutputStream::out, "before\n", 1);
    kept.take(2, OutputStream::out, huge, 2);
    CHECK(kept.read(2, 0, kAll).blocks.size() == 1);
    // What came before a block is counted, kept or not.
    CHECK(kept.read(2, 0, kAll).blocks.front().at == 7);
    CHECK(kept.read(1, 0, kAll).blocks.front().at == (5000 - left) * line.size());
}

TEST_CASE("kept output: whoever reads piece by piece reads all that is kept, once and in order") {
    const unsigned seed = std::random_device()();
    INFO("seed " << seed);
    std::mt19937 random(seed);
    for (int round = 0; round < 200; ++round) {
        KeptOutput kept;
        std::string printed;
        std::string read;
        std::uint64_t from = 0;
        std::map<int, std::uint64_t> next_of;
        const std::optional<int> rank = round % 2 == 0 ? std::optional<int>() : 1;
        for (int i = 0; i < 50; ++i) {
            const int writer = static_cast<int>(random() % 3);
            const std::string line = std::string(random() % 40, static_cast<char>('a' + i % 26)) + "\n";
            kept.take(writer, random() % 2 == 0 ? OutputStream::out : OutputStream::err, line, i / 3);
            if (!rank || writer == *rank) printed += line;
            if (random() % 4 != 0) continue;
            for (bool is_all = false; !is_all && random() % 8 != 0;) {
                const KeptPiece piece = kept.read(rank, from, 1 + random() % 60);
                REQUIRE((!piece.blocks.empty() || piece.is_all));
                for (const KeptBlock& block : piece.blocks) {
                    read += block.text;
                    REQUIRE(std::exchange(next_of[block.rank], block.at + block.text.size()) == block.at);
                }
                is_all = piece.is_all;
                from = piece.next;
            }
        }
        for (const KeptBlock& block : kept.read(rank, from, kAll).blocks) read += block.text;
        REQUIRE(read == printed);
    }
}

TEST_CASE("kept output: a question waits for what comes, and not beyond the output's end") {
    boost::asio::io_context context(1);
    KeptOutput kept;
    KeptReaders readers = readers_of(context, kept);
    std::vector<std::string> told;
    const auto tell = [&told](const KeptPiece& piece) { told.push_back(texts_of(piece)); };
    readers.ask({}, tell);
    CHECK(told == std::vector<std::string>{""});
    readers.ask({.rank = 1, .waits = true}, tell);
    readers.ask({.waits = true}, tell);
    CHECK(told.size() == 1);
    kept.take(0, OutputStream::out, "a\n", 1);
    readers.look();
    CHECK(told == std::vector<std::string>{"", "0:a\n"});
    readers.look();
    kept.take(1, OutputStream::out, "b\n", 1);
    readers.look();
    CHECK(told.back() == "1:b\n");
    readers.ask({.from = kept.end(), .waits = true}, tell);
    CHECK(told.size() == 3);
    readers.finish();
    readers.ask({.from = kept.end(), .waits = true}, tell);
    CHECK(told.size() == 5);
    context.run();  // no timer is left
    CHECK(told.size() == 5);
}

TEST_CASE("kept output: a question in vain is answered in time") {
    boost::asio::io_context context(1);
    KeptOutput kept;
    KeptReaders readers = readers_of(context, kept);
    int told = 0;
    readers.ask({.waits = true}, [&told](const KeptPiece& piece) {
        CHECK((piece.blocks.empty() && piece.is_all));
        ++told;
    });
    context.run();
    CHECK(told == 1);
}

}  // namespace ddprun
