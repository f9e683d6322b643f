#include "launcher/cluster/host_list.hpp"

#include <fmt/core.h>

#include <random>

#include "rendezvous/job/failure.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using Hosts = std::vector<std::string>;

Hosts expanded(std::string_view text) {
    auto result = expand_host_list(text);
    if (const auto* wrong = std::get_if<std::string>(&result)) return {"refused: " + *wrong};
    return std::get<Hosts>(std::move(result));
}

std::string why_no_list(std::string_view text) {
    const auto result = expand_host_list(text);
    const auto* wrong = std::get_if<std::string>(&result);
    return wrong == nullptr ? "" : *wrong;
}

// A list and what it stands for, made side by side.
class RandomList {
  public:
    explicit RandomList(unsigned seed) : random_(seed) {
        for (int items = pick(1, 5); items > 0; --items) add_item();
    }

    std::string text;
    Hosts hosts;

  private:
    int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

    void add_item() {
        constexpr const char* kSeparators[] = {",", " ", ", ", "\n", " ,\t"};
        if (!text.empty()) text += kSeparators[pick(0, 4)];
        Hosts names{fmt::format("h{}-", pick(0, 99))};
        text += names.front();
        for (int brackets = pick(0, 3); brackets > 0; --brackets) {
            names = times(names, add_bracket());
            if (pick(0, 1) == 0) continue;
            text += "x.";
            names = times(names, {"x."});
        }
        hosts.insert(hosts.end(), names.begin(), names.end());
    }

    Hosts add_bracket() {
        Hosts numbers;
        text += '[';
        for (int ranges = pick(1, 4); ranges > 0; --ranges) {
            const int low = pick(0, 120), high = low + pick(0, 4);
            const int width = pick(0, 4);
            const std::string first = fmt::format("{:0{}}", low, width);
            text += high == low ? first : fmt::format("{}-{}", first, high);
            text += ranges > 1 ? ',' : ']';
            for (int number = low; number <= high; ++number)
                numbers.push_back(fmt::format("{:0{}}", number, first.size()));
        }
        return numbers;
    }

    static Hosts times(const Hosts& names, const Hosts& ends) {
        Hosts all;
        for (const std::string& name : names) {
            for (const std::string& end : ends) all.push_back(name + end);
        }
        return all;
    }

    std::mt19937 random_;
};

}  // namespace

TEST_CASE("a host list is expanded in its own order") {
    CHECK(expanded("n1") == Hosts{"n1"});
    CHECK(expanded("n[1-3,7]") == Hosts{"n1", "n2", "n3", "n7"});
    CHECK(expanded("n[08-11]") == Hosts{"n08", "n09", "n10", "n11"});
    CHECK(expanded("n[8-11]") == Hosts{"n8", "n9", "n10", "n11"});
    CHECK(expanded("n[008-11]") == Hosts{"n008", "n009", "n010", "n011"});
    CHECK(expanded("rack[0-1]node[0-2]") ==
          Hosts{"rack0node0", "rack0node1", "rack0node2", "rack1node0", "rack1node1", "rack1node2"});
    CHECK(expanded("a[1-2]-ib,b3") == Hosts{"a1-ib", "a2-ib", "b3"});
    CHECK(expanded("x[001-002,010]y[1,3]") ==
          Hosts{"x001y1", "x001y3", "x002y1", "x002y3", "x010y1", "x010y3"});
    CHECK(expanded("[1-2]") == Hosts{"1", "2"});
    CHECK(expanded("b,a,b") == Hosts{"b", "a", "b"});
    CHECK(expanded(" c , a\tb\nd ") == Hosts{"c", "a", "b", "d"});
    CHECK(expanded("n[999999999999999998-999999999999999999]") ==
          Hosts{"n999999999999999998", "n999999999999999999"});
}

TEST_CASE("a list that is none says where and why") {
    for (const char* text : {"", " ", ",n1", "n1,", "n1,,n2", "n1, ,n2"})
        CHECK(why_no_list(text) == "a name is missing at its beginning, its end or between two commas");
    CHECK(why_no_list("n[1-") == "n[1-: a '[' without its ']'");
    CHECK(why_no_list("a,n[1,b") == "n[1,b: a '[' without its ']'");
    CHECK(why_no_list("n]1") == "n]1: a ']' without its '['");
    CHECK(why_no_list("n[3-1]") == "n[3-1]: the range 3-1 runs backwards");
    CHECK(why_no_list("n[1-99999999999]") == "n[1-99999999999]: more than 65536 hosts");
    for (const char* text :
         {"n[]", "n[1,]", "n[-1]", "n[1-]", "n[1-2-3]", "n[a]", "n[000x133]", "n[1[2]]", "n[1 ]"})
        CHECK_THAT(why_no_list(text), Catch::Contains(" is no range like 1-8"));
    CHECK_THAT(why_no_list("n[99999999999999999999999999]"), Catch::EndsWith("have more than 18 digits"));
    CHECK_THAT(why_no_list("n[1-0000000000000000002]"), Catch::EndsWith("have more than 18 digits"));
    // It goes to a terminal, and may be a megabyte.
    const std::string wild = why_no_list("n\x1b[2J" + std::string(10'000, 'x'));
    CHECK(wild.find('\x1b') == std::string::npos);
    CHECK(wild.size() < 200);
}

TEST_CASE("a list's limits hold before it is made") {
    CHECK(expanded("n[1-65536]").size() == kMaxListedHosts);
    CHECK(expanded("n[0-255]m[0-255]").size() == kMaxListedHosts);
    for (const char* text :
         {"n[0-65536]", "n[1-65536],m", "n[0-255]m[0-256]", "[0-65535][0-65535][0-65535][0-65535]",
          "n[1-40000,1-40000]", "n[0-999999999999999999]"})
        CHECK_THAT(why_no_list(text), Catch::EndsWith(": more than 65536 hosts"));
    const std::string eight = "[1][1][1][1][1][1][1][1]";
    CHECK(expanded(eight) == Hosts{"11111111"});
    CHECK_THAT(why_no_list(eight + "[1]"), Catch::EndsWith("more than 8 brackets in one name"));
    const std::string name(kMaxHostText - 2, 'n');
    CHECK(expanded(name + "[9-10]").back() == name + "10");
    CHECK_THAT(why_no_list(name + "[9-100]"), Catch::EndsWith("a name of more than 255 bytes"));
    CHECK_THAT(why_no_list(name + "[001]"), Catch::EndsWith("a name of more than 255 bytes"));
    std::string longest(kMaxHostListText, ' ');
    longest.front() = 'n';
    CHECK(expanded(longest) == Hosts{"n"});
    CHECK(why_no_list(longest + " ") == "longer than 1048576 bytes");
    // As many ranges as fit: slow only if each name looks at all of them.
    std::string ranges = "n[1";
    for (std::size_t count = 1; count < kMaxListedHosts; ++count) ranges += ",1";
    CHECK(expanded(ranges + "]").size() == kMaxListedHosts);
}

TEST_CASE("whatever is compressed comes back") {
    const unsigned first = std::random_device()();
    for (unsigned seed = first; seed != first + 500; ++seed) {
        const RandomList list(seed);
        INFO("seed " << seed << ": " << list.text);
        REQUIRE(expanded(list.text) == list.hosts);
    }
}

TEST_CASE("any bytes are expanded or refused") {
    const unsigned first = std::random_device()();
    constexpr std::string_view kBytes = "[[]],,--0129 na\n\xff";
    for (unsigned seed = first; seed != first + 5000; ++seed) {
        std::mt19937 random(seed);
        std::string text;
        for (unsigned size = random() % 20; size > 0; --size) text += kBytes[random() % kBytes.size()];
        INFO("seed " << seed << ": " << text);
        const auto result = expand_host_list(text);
        if (const auto* hosts = std::get_if<Hosts>(&result)) {
            REQUIRE(!hosts->empty());
            for (const std::string& host : *hosts)
                REQUIRE((!host.empty() && host.find_first_of("[], \n") == std::string::npos));
        } else {
            REQUIRE(!std::get<std::string>(result).empty());
        }
    }
}

TEST_CASE("a machine finds itself in a list, under its short name or its full one") {
    CHECK(position_of("gpu2", {"gpu1", "gpu2", "gpu20"}) == 1);
    CHECK(position_of("gpu2.example.org", {"gpu1", "gpu2"}) == 1);
    CHECK(position_of("gpu2", {"gpu1.example.org", "gpu2.example.org"}) == 1);
    CHECK(position_of("GPU2", {"gpu1", "gpu2"}) == 1);
    CHECK(position_of("gpu2", {"gpu1", "Gpu2.example.org"}) == 1);
    CHECK(position_of("gpu2", {"gpu2", "gpu1", "gpu2"}) == 0);
    CHECK_FALSE(position_of("gpu2", {"gpu1", "gpu22", "gpu2-ib"}));
    CHECK_FALSE(position_of("gpu2.a", {"gpu2.b"}));
    CHECK_FALSE(position_of("gpu2.a.b", {"gpu2.a"}));
    CHECK_FALSE(position_of("gpu2", {}));
    CHECK_FALSE(position_of("", {".a"}));
    // Two machines may be meant; but not where one has the very name.
    CHECK_FALSE(position_of("gpu2", {"gpu2.a", "gpu2.b"}));
    CHECK_FALSE(position_of("gpu2", {"gpu2.a", "gpu2.b", "gpu2.a"}));
    CHECK(position_of("gpu2", {"gpu2.a", "gpu2.b", "gpu2"}) == 2);
    CHECK(position_of("gpu2", {"gpu2.a", "gpu2.a"}) == 0);
}

}  // namespace ddprun
