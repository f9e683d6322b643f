#include "rendezvous/coordinator/admission.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/coordinator_fixture.hpp"

namespace ddprun {
namespace {

const JobTerms kTerms{"1", "none", 3};

Hello running(int node_rank, const std::vector<std::string>& words) {
    Hello agent = hello(node_rank, 3);
    agent.command = describe_command(words);
    return agent;
}

std::optional<Refused> answer(const Hello& newcomer, const Hello& companion) {
    return reason_to_refuse(newcomer, kTerms, {.holder = nullptr, .companion = &companion});
}

}  // namespace

TEST_CASE("agents of one job run one command, or say that they may not") {
    const Hello first = running(0, {"train.py", "--lr", "1"});
    CHECK_FALSE(answer(running(1, {"train.py", "--lr", "1"}), first));

    const auto refused = answer(running(1, {"train.py", "--lr", "2"}), first);
    REQUIRE(refused);
    CHECK(refused->exit_code == kExitNotAdmitted);
    CHECK_THAT(refused->reason, Catch::Contains("this agent runs \"train.py --lr 2\", but node 0 (gpu0) runs "
                                                "\"train.py --lr 1\"") &&
                                    Catch::Contains("--allow-different") && Catch::Contains("--rdzv-id"));

    Hello lenient = running(1, {"other"});
    lenient.allow_different = true;
    CHECK_FALSE(answer(lenient, first));
    Hello lenient_first = first;
    lenient_first.allow_different = true;
    CHECK_FALSE(answer(running(1, {"other"}), lenient_first));
    CHECK_FALSE(reason_to_refuse(running(1, {"other"}), kTerms, {}));
}

TEST_CASE("agents may have other arguments, not another program") {
    const auto with = [](int node_rank, const std::string& script, const std::string& out) {
        Hello agent = hello(node_rank, 3);
        agent.command = describe_command({"python3", script, "--out", out}, {"python3", script});
        return agent;
    };
    CHECK_FALSE(answer(with(1, "train.py", "/n1"), with(0, "train.py", "/n0")));
    CHECK(answer(with(1, "other.py", "/n0"), with(0, "train.py", "/n0")));
}

TEST_CASE("the words in which commands differ") {
    const auto differing = [](const std::vector<std::vector<std::string>>& commands) {
        std::vector<JobCommand> described;
        for (const auto& words : commands) described.push_back(describe_command(words));
        std::vector<const JobCommand*> pointers;
        for (const JobCommand& command : described) pointers.push_back(&command);
        return differing_words(pointers);
    };
    using Texts = std::vector<std::string>;
    CHECK(differing({{"t", "--out", "/n1", "--lr", "1"}, {"t", "--out", "/n2", "--lr", "1"}}) ==
          Texts{"--out /n1", "--out /n2"});
    CHECK(differing({{"t", "--out=/n1", "x", "--lr", "1"}, {"t", "--out=/n2", "x", "--lr", "2"}}) ==
          Texts{"--out=/n1 --lr 1", "--out=/n2 --lr 2"});
    CHECK(differing({{"t", "a b"}, {"t", "a c"}}) == Texts{"'a b'", "'a c'"});
    CHECK(differing({{"t", "a", "z"}, {"t", "a", "b", "c", "z"}, {"t", "a", "z"}}) ==
          Texts{"z", "b c z", "z"});
    CHECK(differing({{"t", "a", "a"}, {"t", "a"}}) == Texts{"a", ""});
    CHECK(differing({{"t"}, {"t", std::string(1000, 'x')}})[1].size() ==
          kMaxCommandShown + std::string("…").size());
}

TEST_CASE("a node without a number is known by its machine") {
    const auto refused = answer(running(1, {"b"}), [] {
        Hello unnumbered = running(kUnnumbered, {"a"});
        unnumbered.host = "gpu07";
        return unnumbered;
    }());
    REQUIRE(refused);
    CHECK_THAT(refused->reason, Catch::Contains("this agent runs \"b\", but gpu07 runs \"a\"; "));
}

TEST_CASE("a taken node number is told before a different command") {
    const Hello first = running(0, {"a"});
    const auto refused = reason_to_refuse(running(0, {"b"}), kTerms, {.holder = &first, .companion = &first});
    REQUIRE(refused);
    CHECK_THAT(refused->reason, Catch::Contains("has already joined from gpu0"));
}

TEST_CASE("commands are compared word by word and whole, and shown as one would type them") {
    CHECK(describe_command({"a", "b c", "", "it's", "x=1"}).text == R"(a 'b c' '' 'it'\''s' x=1)");
    const auto digest = [](std::vector<std::string> words) { return describe_command(words).digest; };
    CHECK(digest({"a", "b"}) == digest({"a", "b"}));
    CHECK(digest({"a", "b"}) != digest({"a b"}));
    CHECK(digest({"a", "b"}) != digest({"ab"}));
    CHECK(digest({"a", ""}) != digest({"a"}));
    CHECK(digest({"a", "b"}) != digest({"b", "a"}));
    // Beyond what travels as text.
    std::vector<std::string> long_words(3000, "--word");
    const JobCommand one = describe_command(long_words);
    long_words.push_back("x");
    CHECK(one.text.size() <= kMaxJobCommandText);
    CHECK(one.text == describe_command(long_words).text);
    CHECK(one.digest != digest(long_words));
}

TEST_CASE("of a long command the part that differs is shown") {
    std::string path(1000, 'p');
    const JobCommand one = describe_command({path, "--lr=1", std::string(1000, 'q')});
    const JobCommand other = describe_command({path, "--lr=2", std::string(1000, 'q')});
    CHECK_THAT(shown_beside(one, other), Catch::Contains("--lr=1") && Catch::StartsWith("…pppp"));
    CHECK_THAT(shown_beside(other, one), Catch::Contains("--lr=2"));
    CHECK(shown_beside(one, other).size() <= kMaxCommandShown + 2 * std::string("…").size());
    CHECK(shown_beside(describe_command({"a"}), one) == "a");
    // Never half a character.
    std::string umlauts;
    for (int i = 0; i < 500; ++i) umlauts += "ä";
    const std::string shown = shown_beside(describe_command({umlauts}), describe_command({"b"}));
    CHECK(shown.substr(0, 3) == "'ä");
    CHECK_THAT(shown, Catch::EndsWith("ä…"));
}

}  // namespace ddprun
