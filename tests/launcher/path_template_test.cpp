#include "launcher/path_template.hpp"

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

// 2026-11-21 04:32:02 UTC.
const PathFacts kJob{1'795'235'522, "job7", "gpu06"};

}  // namespace

TEST_CASE("path template: signs and what they stand for") {
    struct Row {
        const char* text;
        const char* path;
    };
    const Row rows[] = {
        {"", ""},
        {"/logs", "/logs"},
        {"%t", "20261121-043202"},
        {"/runs/%t-%j/%h.log", "/runs/20261121-043202-job7/gpu06.log"},
        {"100%%", "100%"},
        {"%%t", "%t"},
        {"%%%t%%", "%20261121-043202%"},
        {"%j%j", "job7job7"},
    };
    for (const Row& row : rows) {
        CAPTURE(row.text);
        CHECK_FALSE(path_complaint(row.text));
        CHECK(filled_path(row.text, kJob) == row.path);
    }
}

TEST_CASE("path template: another sign is named, with those that there are") {
    struct Row {
        const char* text;
        const char* sign;
    };
    const Row rows[] = {{"%R", "%R is"}, {"/a/%d/%t", "%d is"}, {"100%", "% is"}, {"%%%", "% is"},
                        {"%T", "%T is"}, {"%t%%x%1", "%1 is"},  {"% t", "%  is"}};
    for (const Row& row : rows) {
        CAPTURE(row.text);
        const auto why = path_complaint(row.text);
        REQUIRE(why);
        CHECK_THAT(*why, Catch::StartsWith(row.sign) && Catch::Contains("%t") && Catch::Contains("%j") &&
                             Catch::Contains("%h") && Catch::Contains("%r") && Catch::Contains("%%"));
    }
}

TEST_CASE("path template: the number of the node is filled in before the rest") {
    struct Row {
        const char* text;
        bool is_named;
        const char* path;
    };
    const Row rows[] = {
        {"", false, ""},           {"/logs/%r", true, "/logs/12"},     {"%r%r", true, "1212"},
        {"%%r", false, "%%r"},     {"%%%r/%t-%j", true, "%%12/%t-%j"}, {"%h%", false, "%h%"},
        {"r%t%%", false, "r%t%%"}, {"%t%r.%h", true, "%t12.%h"},
    };
    for (const Row& row : rows) {
        CAPTURE(row.text);
        CHECK(names_node_rank(row.text) == row.is_named);
        CHECK(with_node_rank(row.text, 12) == row.path);
    }
    CHECK_FALSE(path_complaint("%r-%t"));
}

TEST_CASE("path template: an id leads to no other folder") {
    CHECK(filled_path("/logs/%j", {0, "../../etc/x", ""}) == "/logs/_._.._etc_x");
    CHECK(filled_path("/logs/%j", {0, "a\nb", ""}) == "/logs/a_b");
    CHECK(filled_path("%j", {0, std::string(1000, 'x'), ""}).size() == 200);
    // What stands for a sign is none.
    CHECK(filled_path("%j", {0, "%t", ""}) == "%t");
    CHECK(filled_path("%t", {0, "", ""}) == "19700101-000000");
}

TEST_CASE("path template: what can be tried before the job is known") {
    CHECK(fixed_part("/a/b/c") == "/a/b/c");
    CHECK(fixed_part("/a/b-%t/c") == "/a");
    CHECK(fixed_part("a/%%") == "a");
    CHECK(fixed_part("%t/a") == ".");
    CHECK(fixed_part("/%t") == "/");
}

}  // namespace ddprun
