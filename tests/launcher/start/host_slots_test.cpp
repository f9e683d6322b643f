#include "launcher/start/host_slots.hpp"

#include <fmt/core.h>

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using Slots = std::vector<HostSlots>;

std::string slots_text(const std::variant<Slots, std::string>& parsed) {
    if (const auto* wrong = std::get_if<std::string>(&parsed)) return "refused: " + *wrong;
    std::string text;
    for (const HostSlots& host : std::get<Slots>(parsed)) {
        text += fmt::format("{}{}", text.empty() ? "" : " ", host.target);
        if (host.slots != kUnsaidSlots) text += fmt::format("={}", host.slots);
        if (!host.devices.empty()) text += fmt::format("({})", host.devices);
    }
    return text;
}

std::string listed(std::string_view text) { return slots_text(parse_hosts(text)); }
std::string filed(std::string_view text) { return slots_text(parse_host_file(text, "hosts")); }

}  // namespace

TEST_CASE("a list of hosts names them with their slots", "[start]") {
    CHECK(listed("a:8,b:4") == "a=8 b=4");
    CHECK(listed(" a , b\n") == "a b");
    CHECK(listed("gpu[01-03]:8,big") == "gpu01=8 gpu02=8 gpu03=8 big");
    CHECK(listed("gpu[1,3]:0") == "gpu1=0 gpu3=0");
    CHECK(listed("alice@a:2,bob@b[1-2]") == "alice@a=2 bob@b1 bob@b2");
    CHECK(listed("10.0.0.1:2,[fd00::1]:4,[fd00::2],u@[::1]:1") == "10.0.0.1=2 fd00::1=4 fd00::2 u@::1=1");
    CHECK(host_of("alice@a") == "a");
    CHECK(host_of("fd00::1") == "fd00::1");
}

TEST_CASE("a host that is named again has more slots", "[start]") {
    CHECK(listed("a,b,a") == "a=2 b");
    CHECK(listed("a:2,a:3") == "a=5");
    CHECK(listed("a:2,a") == "a=3");
    CHECK(listed("a,u@a") == "a u@a");
    CHECK(listed("a:4096,a:4096") == "a=4096");
}

TEST_CASE("what is no list of hosts is refused with the item", "[start]") {
    CHECK(listed("") == "refused: names no host");
    CHECK(listed(" , ").starts_with("refused: a name is missing"));
    CHECK(listed(",n1").starts_with("refused: a name is missing"));
    for (const char* text : {"a,,b", "a,", "a, ", "a, ,b"})
        CHECK(listed(text) == "refused: a name is missing at its beginning, its end or between two commas");
    CHECK(listed("a:") == "refused: '' is no number of slots from 0 to 4096");
    CHECK(listed("a:,b") == "refused: a:: '' is no number of slots from 0 to 4096");
    CHECK(listed("b a:-1") == "refused: a:-1: '-1' is no number of slots from 0 to 4096");
    CHECK(listed("n[1-") == "refused: a '[' without its ']'");
    CHECK(listed("a:4097").find("no number of slots") != std::string::npos);
    CHECK(listed("n[3-1]:2") == "refused: the range 3-1 runs backwards");
    CHECK(listed("fd00::1") == "refused: an IPv6 address stands in brackets");
    CHECK(listed("[fd00::1]8").find("only :SLOTS may follow") != std::string::npos);
    CHECK(listed("[fd00::x]").find("is no name of a host") != std::string::npos);
    CHECK(listed("-oProxyCommand=id").find("is no name of a host") != std::string::npos);
    CHECK(listed("-l@a").find("no name of a user") != std::string::npos);
    CHECK(listed("a;id@b").find("no name of a user") != std::string::npos);
    CHECK(listed("a;id").find("is no name of a host") != std::string::npos);
    CHECK(listed("n[1-65536],m") == "refused: m: more than 65536 hosts");
}

TEST_CASE("a file of hosts is read as Open MPI, MPICH, PBS and DeepSpeed write it", "[start]") {
    CHECK(filed("# all\na slots=8\n\n  b\tslots=4 max_slots=4 # half\r\nc:2\n") == "a=8 b=4 c=2");
    CHECK(filed("n1\nn1\nn2\nn1") == "n1=3 n2");
    CHECK(filed("alice@gpu[1-2] slots=3") == "alice@gpu1=3 alice@gpu2=3");
}

TEST_CASE("what is wrong in a file of hosts is said with its line", "[start]") {
    CHECK(filed("a\nb slots=x\n") == "refused: hosts:2: 'slots=x' is no number of slots; write slots=8");
    CHECK(filed("a slots=").starts_with("refused: hosts:1: 'slots='"));
    CHECK(filed("a slots=1 slots=2") == "refused: hosts:1: slots= stands there twice");
    CHECK(filed("a:2 slots=2") == "refused: hosts:1: a:2: its slots are said twice");
    CHECK(filed("\n\na cpus=3") == "refused: hosts:3: 'cpus=3' is not known here; write HOST slots=N");
    CHECK(filed("a b").starts_with("refused: hosts:1: 'b' is not known here"));
    CHECK(filed("# nothing\n\n") == "refused: hosts: names no host");
    CHECK(filed("a\x1b[2J") == "refused: hosts:1: a: a '[' without its ']'");
}

TEST_CASE("a selection names hosts by brackets, as a list does", "[start]") {
    const auto selected = [](std::string_view text) {
        const auto hosts = parse_hosts("n[1-5]:2,r[1,2]c[1,2],[fd00::1]:2,m1-2:2");
        return slots_text(select_hosts(std::get<Slots>(hosts), Selection::include, text));
    };
    CHECK(selected("n[2-3]") == "n2=2 n3=2");
    CHECK(selected("n[1,3-4]:1,n5@m[1]-2") == "n1=1(1) n3=1(1) n4=1(1) n5=2 m1-2=2");
    CHECK(selected("[fd00::1]:0,n[2]") == "n2=2 fd00::1=1(0)");
    CHECK(selected("r[1,2]c[1,2]") == "r1c1 r1c2 r2c1 r2c2");
    CHECK(selected("n[4-6]") == "refused: 'n6' is none of the hosts");
    CHECK(selected("n[1-2],n2") == "refused: n2 stands there twice");
}

TEST_CASE("a selection leaves some hosts and slots", "[start]") {
    const Slots hosts{{"a", 4}, {"u@b", 2}, {"c", kUnsaidSlots}};
    const auto selected = [&](Selection way, std::string_view text) {
        return slots_text(select_hosts(hosts, way, text));
    };
    CHECK(selected(Selection::include, "b@a:0,2-3") == "a=3(0,2,3) u@b=2");
    CHECK(selected(Selection::include, "c") == "c");
    CHECK(selected(Selection::include, "a,c") == "a=4 c");
    CHECK(selected(Selection::include, "a:0,2,b:1,c") == "a=2(0,2) u@b=1(1) c");
    CHECK(selected(Selection::include, "a:0,") == "refused: '' is no slot and no range");
    CHECK(selected(Selection::include, "a,") == "refused: '' is none of the hosts");
    CHECK(selected(Selection::include, "b,a@b") == "refused: u@b stands there twice");
    CHECK(selected(Selection::include, "n[1-") == "refused: n[1-: a '[' without its ']'");
    CHECK(selected(Selection::exclude, "a") == "u@b=2 c");
    CHECK(selected(Selection::exclude, "a:1@b:0-1") == "a=3(0,2,3) c");
    CHECK(selected(Selection::exclude, "a@b@c") == "refused: leaves no host");
    CHECK(selected(Selection::include, "d") == "refused: 'd' is none of the hosts");
    CHECK(selected(Selection::include, "") == "refused: '' is none of the hosts");
    CHECK(selected(Selection::include, "a@a:1") == "refused: a stands there twice");
    CHECK(selected(Selection::include, "a:4") == "refused: slot 4 of a, which has slots 0 to 3");
    CHECK(selected(Selection::include, "a:3-1") == "refused: '3-1' is no slot and no range");
    CHECK(selected(Selection::include, "a:") == "refused: '' is no slot and no range");
    CHECK(selected(Selection::include, "c:0") ==
          "refused: c has no number of slots in the list, so none can be chosen");
}

}  // namespace ddprun
