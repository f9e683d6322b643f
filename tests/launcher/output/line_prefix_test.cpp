#include "launcher/output/output_plan.hpp"

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

const LineOrigin kOrigin{"gpu07", "trainer", "stderr", 13, 5};

std::string ours(const std::string& text) {
    auto result = LinePrefix::parse(text);
    if (const auto* why = std::get_if<std::string>(&result)) return "refused: " + *why;
    return std::get<LinePrefix>(result).with(kOrigin).render("12:00");
}

std::string torchs(const std::string& text) {
    return LinePrefix::parse_dollar(text).with(kOrigin).render("12:00");
}

}  // namespace

TEST_CASE("our own templates") {
    CHECK(ours("{host}:{rank}: ") == "gpu07:13: ");
    CHECK(ours("{role}/{local_rank}/{stream}/{time}|") == "trainer/5/stderr/12:00|");
    CHECK(ours("plain ") == "plain ");
    CHECK(ours("") == "");
    CHECK(ours("{{{rank}}}") == "{13}");
    CHECK(ours("{time}{time}") == "12:0012:00");
}

TEST_CASE("a template with a mistake says which") {
    CHECK(ours("a{Rank}") ==
          "refused: '{Rank}' is none of {host} {rank} {local_rank} {role} {time} {stream}");
    CHECK(ours("{}").find("refused: '{}' is none of") == 0);
    CHECK(ours("x{rank").find("refused: '{rank' has a brace without its other half") == 0);
    CHECK(ours("rank}").find("refused: '}' has a brace") == 0);
}

TEST_CASE("torchrun's templates follow string.Template: what is unknown stays") {
    CHECK(torchs("[${role_name}${rank}]: ") == "[trainer13]: ");
    CHECK(torchs("$role_name.$local_rank@$hostname") == "trainer.5@gpu07");
    CHECK(torchs("$$ ${what} $what $ ${} ${rank ${9}") == "$ ${what} $what $ ${} ${rank ${9}");
    CHECK(torchs("$rankle ${rank}le") == "$rankle 13le");
    CHECK(torchs("end$") == "end$");
}

TEST_CASE("the header of tee'd lines has no blank behind it") {
    CHECK(LinePrefix::tee_header().with(kOrigin).render("") == "[trainer5]:");
}

TEST_CASE("only a template with {time} needs the time") {
    CHECK(std::get<LinePrefix>(LinePrefix::parse("{host} {time}")).uses_time());
    CHECK(std::get<LinePrefix>(LinePrefix::parse("{host} {time}")).with(kOrigin).uses_time());
    CHECK_FALSE(std::get<LinePrefix>(LinePrefix::parse("{host}")).uses_time());
    CHECK(LinePrefix().empty());
    CHECK_FALSE(LinePrefix::tee_header().empty());
}

TEST_CASE("braces in a host's name are no fields") {
    CHECK(
        std::get<LinePrefix>(LinePrefix::parse("{host} ")).with({"{rank}", "r", "stdout", 1, 1}).render("") ==
        "{rank} ");
}

}  // namespace ddprun
