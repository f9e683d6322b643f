// What one client reads of the nodes of a job: which node is asked what, and what the client is told.
#include "launcher/view/job_stream.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <set>

#include "launcher/harmless_text.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

// Nodes on paper: what they were asked is answered by the test.
class StreamFixture {
  public:
    explicit StreamFixture(StreamTerms terms)
        : stream_(std::make_shared<JobStream>(
              std::move(terms),
              [this](int node, const KeptQuestion& question, auto hear) {
                  asked.push_back({node, question, std::move(hear)});
              },
              [this](std::chrono::milliseconds, auto then) { later.push_back(std::move(then)); })) {}

    struct Asked {
        int node;
        KeptQuestion question;
        std::function<void(HeardPiece)> hear;
    };
    std::deque<Asked> asked;
    std::deque<std::function<void()>> later;

    // The pause that has lasted longest is over.
    void say_later() {
        const auto then = std::move(later.front());
        later.pop_front();
        then();
    }
    JobStream& stream() { return *stream_; }
    void let_go() { stream_.reset(); }

    // Answers the oldest question of this node, which has ranks 2n and 2n+1; the rank's node is node 1.
    void say(int node, KeptPiece piece, bool is_believed = false) {
        answer(node, std::move(piece), "", is_believed);
    }
    void fail(int node, const std::string& trouble) { answer(node, {}, trouble, false); }

    std::vector<StreamLine> taken() {
        std::vector<StreamLine> lines;
        const std::string text = stream_->take();
        for (const std::string_view line : lines_of(text)) lines.push_back(*parse_stream_line(line));
        return lines;
    }

    std::vector<int> asked_nodes() const {
        std::vector<int> nodes;
        for (const Asked& one : asked) nodes.push_back(one.node);
        return nodes;
    }

  private:
    void answer(int node, std::optional<KeptPiece> piece, const std::string& trouble, bool is_believed) {
        const auto one = std::find_if(asked.begin(), asked.end(),
                                      [node](const Asked& other) { return other.node == node; });
        REQUIRE(one != asked.end());
        const auto hear = std::move(one->hear);
        asked.erase(one);
        const int speaker = node == JobStream::kTheRank ? 1 : node;
        NodeAnswer from{speaker, "gpu" + std::to_string(speaker), "", trouble};
        from.first_rank = 2 * speaker;
        from.ranks = 2;
        hear({std::move(from), std::move(piece), is_believed});
    }

    std::shared_ptr<JobStream> stream_;
};

KeptPiece piece_of(int rank, const std::string& text, std::uint64_t next, bool is_all = true) {
    return {next, is_all, {{rank, "stdout", 1, text}}, "launcher-" + std::to_string(rank / 2)};
}
KeptPiece nothing(std::uint64_t next) { return {next, true, {}, "launcher"}; }

using Nodes = std::vector<int>;

}  // namespace

TEST_CASE("job stream: what there was comes from all nodes, and then the end") {
    StreamFixture fixture({.kind = "output"});
    fixture.stream().read({0, 1});
    CHECK(fixture.asked_nodes() == Nodes{0, 1});
    CHECK_FALSE(fixture.asked[0].question.waits);
    fixture.say(0, piece_of(1, "a\n", 2, false));
    // It is asked on when the client has taken that.
    CHECK(fixture.asked_nodes() == Nodes{1});
    CHECK(fixture.taken() ==
          std::vector<StreamLine>{{.node = 0, .host = "gpu0", .blocks = {{1, "stdout", 1, "a\n"}}}});
    CHECK(fixture.asked_nodes() == Nodes{1, 0});
    CHECK((fixture.asked[1].question.from == 2 && fixture.asked[1].question.launcher == "launcher-0"));
    fixture.say(0, nothing(2));
    fixture.fail(1, "the connection to it broke");
    CHECK(fixture.stream().is_over());
    CHECK(fixture.taken() ==
          std::vector<StreamLine>{{.node = 1, .host = "gpu1", .trouble = "the connection to it broke"},
                                  {.has_caught_up = true}});
    CHECK((fixture.asked.empty() && fixture.later.empty() && fixture.taken().empty()));
}

TEST_CASE("job stream: who follows is told what comes, when it comes") {
    StreamFixture fixture({.kind = "output", .follows = true});
    int woken = 0;
    fixture.stream().read({0, 1});
    fixture.say(0, nothing(0));
    fixture.say(1, nothing(7));
    CHECK(fixture.taken() == std::vector<StreamLine>{{.has_caught_up = true}});
    CHECK(fixture.asked_nodes() == Nodes{0, 1});
    CHECK((fixture.asked[1].question.waits && fixture.asked[1].question.from == 7));
    fixture.stream().await([&woken] { ++woken; });
    fixture.say(1, piece_of(3, "b\n", 9));
    CHECK(woken == 1);
    // The client has yet to take it, so nobody is asked on.
    CHECK(fixture.asked_nodes() == Nodes{0});
    CHECK(fixture.taken().at(0).blocks.at(0).text == "b\n");
    CHECK(fixture.asked_nodes() == Nodes{0, 1});
    CHECK(fixture.asked[1].question.from == 9);
    fixture.stream().await([&woken] { ++woken; });
    fixture.stream().end({.exit_code = 3});
    CHECK((woken == 2 && fixture.stream().is_over()));
    CHECK(fixture.taken() == std::vector<StreamLine>{{.exit_code = 3}});
    // What is late is heard by nobody.
    fixture.say(0, piece_of(0, "c\n", 9));
    CHECK((fixture.taken().empty() && fixture.asked_nodes() == Nodes{1}));
}

TEST_CASE("job stream: a node that does not answer is named once, and asked again after a while") {
    StreamFixture fixture({.kind = "output", .follows = true});
    fixture.stream().read({0, 1});
    fixture.say(0, nothing(0));
    fixture.fail(1, "it did not answer within 2 s");
    CHECK(fixture.taken().size() == 2);
    CHECK(fixture.asked_nodes() == Nodes{0});
    for (int i = 0; i < 3; ++i) {
        REQUIRE(fixture.later.size() == 1);
        std::exchange(fixture.later, {}).front()();
        CHECK(fixture.asked_nodes() == Nodes{0, 1});
        fixture.fail(1, "it did not answer within 2 s");
        CHECK(fixture.taken().empty());
    }
    std::exchange(fixture.later, {}).front()();
    fixture.say(1, piece_of(2, "back\n", 5));
    CHECK(fixture.taken().at(0).blocks.at(0).text == "back\n");
    fixture.fail(1, "it did not answer within 2 s");
    CHECK(fixture.taken().at(0).trouble == "it did not answer within 2 s");
}

TEST_CASE("job stream: a node speaks of its own ranks, and of the one that was asked for") {
    StreamFixture fixture({.kind = "output", .follows = true});
    fixture.stream().read({0, 1});
    fixture.say(0, nothing(0));
    KeptPiece lies = piece_of(3, "own\n", 9);
    for (const KeptBlock& lie :
         {KeptBlock{0, "stdout", 1, "of node 0\n"}, KeptBlock{4, "stderr", 1, "of node 2\n"},
          KeptBlock{-1, "stdout", 1, "none\n"}, KeptBlock{2, "events", 1, "{}\n"}})
        lies.blocks.push_back(lie);
    fixture.say(1, lies);
    const auto lines = fixture.taken();
    REQUIRE(lines.size() == 2);
    CHECK(lines[0].blocks == std::vector<KeptBlock>{{3, "stdout", 1, "own\n"}});
    // This launcher itself is believed: its ranks may be those of another round.
    fixture.say(0, piece_of(9, "before\n", 3), true);
    CHECK(fixture.taken().at(0).blocks.size() == 1);

    StreamFixture of_rank({.kind = "output", .rank = 3});
    of_rank.stream().read({JobStream::kTheRank});
    CHECK((of_rank.asked[0].node == JobStream::kTheRank && of_rank.asked[0].question.rank == 3));
    KeptPiece of_both = piece_of(3, "x\n", 3);
    of_both.blocks.push_back({2, "stdout", 1, "y\n"});
    of_rank.say(JobStream::kTheRank, of_both);
    CHECK(of_rank.taken().at(0).blocks == std::vector<KeptBlock>{{3, "stdout", 1, "x\n"}});

    StreamFixture of_events({.kind = "events"});
    of_events.stream().read({1});
    of_events.say(1, {1, true, {{-1, "events", 0, "{}\n"}, {2, "stdout", 0, "x\n"}}});
    CHECK(of_events.taken().at(0).blocks == std::vector<KeptBlock>{{-1, "events", 0, "{}\n"}});
}

TEST_CASE("job stream: what a node has dropped while the client stood still is told in its place") {
    StreamFixture fixture({.kind = "output", .follows = true});
    fixture.stream().read({1});
    const auto piece = [](std::vector<KeptBlock> blocks, const std::string& launcher = "one") {
        return KeptPiece{1, true, std::move(blocks), launcher};
    };
    // What was dropped before the client came is no gap.
    fixture.say(1, piece({{2, "stdout", 1, "a\n", 5000}}));
    fixture.taken();
    fixture.say(1, piece({{2, "stderr", 2, "b\n", 5002},
                          {3, "stdout", 3, "late\n", 7},
                          {2, "stdout", 4, "c\n", 6208},
                          {2, "stdout", 4, "d\n", 6210}}));
    const auto lines = fixture.taken();
    REQUIRE(lines.size() == 1);
    std::string text;
    for (const KeptBlock& block : lines[0].blocks) text += std::to_string(block.rank) + ":" + block.text;
    CHECK(text ==
          "2:b\n3:[... 7 bytes were not kept ...]\n3:late\n2:[... 1204 bytes were not kept ...]\n2:c\n2:d\n");
    CHECK(lines[0].blocks[3].stream == KeptBlock::kGap);
    // Another launcher counts anew.
    fixture.say(1, piece({{2, "stdout", 5, "e\n", 0}}, "other"));
    CHECK(fixture.taken().at(0).blocks.size() == 1);
    // No node says such a line itself.
    fixture.say(1, piece({{2, "gap", 6, "a lie\n", 2}, {2, "stdout", 6, "f\n", 2}}, "other"));
    CHECK(fixture.taken().at(0).blocks.size() == 1);
}

TEST_CASE("job stream: a line that was shown before its end leaves no gap when it ends") {
    StreamFixture fixture({.kind = "output", .follows = true});
    fixture.stream().read({1});
    fixture.say(1, {5002, true, {{2, "stdout", 1, "a\n", 5000}, {2, "stdout", 2, "step 1", 5002}}, "one"});
    CHECK(fixture.taken().at(0).blocks.size() == 2);
    fixture.say(1, {5017, true, {{2, "stdout", 3, "step 1, step 2\n", 5002}}, "one"});
    const auto lines = fixture.taken();
    REQUIRE(lines.size() == 1);
    CHECK(lines[0].blocks == std::vector<KeptBlock>{{2, "stdout", 3, "step 1, step 2\n", 5002}});
}

TEST_CASE("job stream: a node that has always more to say does not keep a client from its end") {
    StreamFixture fixture({.kind = "output"});
    fixture.stream().read({1});
    const std::string much(256 * 1024, 'x');
    std::size_t asked = 0;
    while (!fixture.asked.empty()) {
        REQUIRE(++asked < 100);
        fixture.say(1, piece_of(2, much, asked, false));
        fixture.taken();
    }
    CHECK(fixture.stream().is_over());
    CHECK(asked > 2 * KeptOutput::kMostOfRank / much.size());
}

TEST_CASE("job stream: a node that answers at once with nothing is not asked at once again") {
    StreamFixture fixture({.kind = "output", .follows = true});
    fixture.stream().read({1});
    fixture.say(1, nothing(0));
    fixture.taken();
    fixture.say(1, nothing(0));
    CHECK((fixture.asked.empty() && fixture.later.size() == 1));
    fixture.say_later();
    fixture.say(1, piece_of(0, "of another\n", 4));
    CHECK((fixture.asked.empty() && fixture.later.size() == 1 && fixture.taken().empty()));
}

TEST_CASE("job stream: so many nodes are asked at one time for what there was") {
    StreamFixture fixture({.kind = "output"});
    Nodes nodes;
    for (int node = 0; node < 3 * JobStream::kMostAsked; ++node) nodes.push_back(node);
    fixture.stream().read(nodes);
    std::size_t answered = 0;
    while (!fixture.asked.empty()) {
        CHECK(fixture.asked.size() <= JobStream::kMostAsked);
        const int node = fixture.asked.front().node;
        fixture.say(node, ++answered % 2 == 0 ? nothing(0) : piece_of(2 * node, "x\n", 2));
        if (answered % 3 == 0) fixture.taken();
        if (fixture.asked.empty()) fixture.taken();
    }
    CHECK((answered == nodes.size() && fixture.stream().is_over()));
}

TEST_CASE("job stream: a client that does not take holds no more than a piece of each node") {
    StreamFixture fixture({.kind = "output", .follows = true});
    fixture.stream().read({0, 1, 2});
    for (const int node : {0, 1, 2}) fixture.say(node, piece_of(2 * node, "x\n", 2));
    CHECK(fixture.asked.empty());
    CHECK(fixture.taken().size() == 4);
    CHECK(fixture.asked.size() == 3);
    // Nor is one asked again whose pause is over.
    fixture.say(0, nothing(2));
    fixture.say(1, piece_of(2, "y\n", 4));
    fixture.say_later();
    CHECK(fixture.asked_nodes() == Nodes{2});
    CHECK(fixture.taken().size() == 1);
    CHECK(fixture.asked.size() == 3);
}

TEST_CASE("job stream: in another round other nodes are read, and a node that stays goes on") {
    StreamFixture fixture({.kind = "output", .follows = true});
    fixture.stream().read({0, 1});
    fixture.say(0, nothing(4));
    fixture.say(1, nothing(8));
    fixture.taken();
    fixture.stream().read({1, 2});
    CHECK(fixture.asked_nodes() == Nodes{0, 1, 2});
    fixture.say(0, piece_of(0, "of a node that is no more\n", 9));
    CHECK(fixture.taken().empty());
    fixture.say(2, piece_of(4, "new\n", 4));
    CHECK(fixture.taken().size() == 1);
    CHECK(fixture.asked[0].question.from == 8);
}

TEST_CASE("job stream: what is in files is said once for each place") {
    StreamFixture fixture({.kind = "output", .follows = true});
    fixture.stream().read({1});
    KeptPiece piece = nothing(0);
    piece.log_folder = "/logs/attempt_0";
    fixture.say(1, piece);
    const auto lines = fixture.taken();
    REQUIRE(lines.size() == 2);
    CHECK((lines[0].log_folder == "/logs/attempt_0" && lines[0].node == 1 && lines[0].blocks.empty()));
    fixture.say(1, piece);
    CHECK(fixture.taken().empty());
}

TEST_CASE("job stream: whatever a client has let go of is heard by nobody") {
    StreamFixture fixture({.kind = "output", .follows = true});
    fixture.stream().read({0, 1});
    fixture.fail(0, "no");
    int woken = 0;
    fixture.taken();
    fixture.stream().await([&woken] { ++woken; });
    fixture.stream().close();
    CHECK((woken == 1 && fixture.stream().is_over() && fixture.taken().empty()));
    fixture.say_later();
    fixture.say(1, piece_of(2, "x\n", 2));
    fixture.let_go();
    CHECK(fixture.asked.empty());
}

TEST_CASE("job stream: whatever nodes do, each line comes once, in order, and nobody waits for nothing") {
    const unsigned seed = std::random_device()();
    INFO("seed " << seed);
    std::mt19937 random(seed);
    for (int round = 0; round < 200; ++round) {
        StreamFixture fixture({.kind = "output", .follows = true});
        fixture.stream().read({0, 1, 2});
        std::map<int, std::string> said;
        std::map<int, std::string> heard;
        std::map<int, std::uint64_t> place;
        const auto take = [&] {
            for (const StreamLine& line : fixture.taken()) {
                for (const KeptBlock& block : line.blocks) heard[block.rank / 2] += block.text;
            }
        };
        for (int i = 0; i < 300; ++i) {
            if (random() % 3 == 0) take();
            if (random() % 3 == 0 && !fixture.later.empty()) fixture.say_later();
            if (fixture.asked.empty()) continue;
            const auto& [node, question, hear] = fixture.asked[random() % fixture.asked.size()];
            const int number = node;
            if (random() % 4 == 0) {
                fixture.fail(number, "no");
                continue;
            }
            REQUIRE(question.from == place[number]);
            if (random() % 3 == 0) {
                fixture.say(number, nothing(place[number]));
                continue;
            }
            const std::string text = std::to_string(random() % 1000) + "\n";
            said[number] += text;
            place[number] += text.size();
            fixture.say(number, piece_of(2 * number, text, place[number], random() % 2 == 0));
        }
        for (int i = 0; i < 4; ++i) {
            take();
            while (!fixture.later.empty()) fixture.say_later();
        }
        CHECK(heard == said);
        const Nodes asked = fixture.asked_nodes();
        CHECK(std::set<int>(asked.begin(), asked.end()) == std::set<int>{0, 1, 2});
        CHECK(asked.size() == 3);
    }
}

}  // namespace ddprun
