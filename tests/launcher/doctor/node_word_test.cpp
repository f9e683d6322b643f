#include "launcher/doctor/node_word.hpp"

#include <random>

#include "launcher/doctor/meeting_talk.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

NodeWord sample_word() {
    return {
        {"1.2.3", "gpu01", {ok_finding("clock", "synchronised")}}, {{"python", "3.11.2"}}, "10.0.0.1", 4711};
}

NodeTidings sample_tidings() {
    PairReach reached{1, 0, Reach::reached, "10.0.0.1:4711", "", 48, -12, 94'000, 93'000};
    PairReach silent{1, 2, Reach::silent, "10.0.0.3:4713", "", {}, {}, {}, {}};
    return {{reached, silent}, {{"gpu02", "stands for no address"}}};
}

Roster sample_roster() {
    return {std::string(kMeetingTokenSize, 'a'),
            {{0, "gpu01", "10.0.0.1", 4711}, {2, "gpu03", "fd00::3", 4713}}};
}

std::string cut(std::string text, std::size_t size) {
    text.resize(size);
    return text;
}

// Of a text that somebody has bent in one place.
template <class Parse>
void bend(const std::string& text, Parse parse) {
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed);
    std::minstd_rand random(seed);
    for (std::size_t size = 0; size < text.size(); ++size) CHECK_FALSE(parse(cut(text, size)));
    for (int turn = 0; turn < 500; ++turn) {
        std::string bent = text;
        bent[random() % bent.size()] = static_cast<char>(random());
        parse(bent);  // Whatever it says, it ends.
    }
}

}  // namespace

TEST_CASE("what nodes say goes through JSON") {
    CHECK(parse_node_word(to_json(sample_word())) == sample_word());
    CHECK(parse_roster(to_json(sample_roster())) == sample_roster());
    CHECK(parse_node_tidings(to_json(sample_tidings()), 1, 3) == sample_tidings());
    bend(to_json(sample_word()), [](const std::string& text) { return parse_node_word(text).has_value(); });
    bend(to_json(sample_roster()), [](const std::string& text) { return parse_roster(text).has_value(); });
    bend(to_json(sample_tidings()),
         [](const std::string& text) { return parse_node_tidings(text, 1, 3).has_value(); });
}

TEST_CASE("a node speaks of itself and of nodes that there are") {
    const std::string text = to_json(sample_tidings());
    CHECK_FALSE(parse_node_tidings(text, 0, 3));
    CHECK_FALSE(parse_node_tidings(text, 1, 2));
    NodeTidings of_itself = sample_tidings();
    of_itself.pairs.front().to = 1;
    CHECK_FALSE(parse_node_tidings(to_json(of_itself), 1, 3));
    of_itself.pairs.front().to = -1;
    CHECK_FALSE(parse_node_tidings(to_json(of_itself), 1, 3));
}

TEST_CASE("words beyond their limits are refused") {
    NodeWord word = sample_word();
    word.port = 65'536;
    CHECK_FALSE(parse_node_word(to_json(word)));
    CHECK_FALSE(parse_node_word(to_json(sample_word()) + std::string(kMaxReportText, ' ')));
    std::string many = to_json(sample_word());
    const std::string fact = R"({"topic":"python","value":"3.11.2"})";
    std::string facts = fact;
    for (std::size_t i = 0; i < kMaxNodeFacts; ++i) facts += "," + fact;
    many.replace(many.find(fact), fact.size(), facts);
    CHECK_FALSE(parse_node_word(many));
    Roster roster = sample_roster();
    roster.token = "short";
    CHECK_FALSE(parse_roster(to_json(roster)));
    roster = sample_roster();
    std::swap(roster.nodes.front(), roster.nodes.back());
    CHECK_FALSE(parse_roster(to_json(roster)));
    roster = sample_roster();
    roster.nodes.back().rank = kMaxTournamentNodes;
    CHECK_FALSE(parse_roster(to_json(roster)));
}

TEST_CASE("a greeting of a meeting goes over the wire, and nothing else is one") {
    const Greeting greeting{std::string(kMeetingTokenSize, 'f'), 258, 70'000};
    const std::string bytes = bytes_of(greeting);
    CHECK(bytes.size() == kGreetingSize);
    CHECK(parse_greeting(bytes) == greeting);
    CHECK_FALSE(parse_greeting(bytes.substr(1)));
    CHECK_FALSE(parse_greeting("x" + bytes.substr(1)));
    CHECK_FALSE(parse_greeting(""));
}

}  // namespace ddprun
