#include "launcher/output/output_plan.hpp"

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

OutputPlan parsed(const OutputOptions& options) {
    auto result = parse_output_options(options);
    if (const auto* why = std::get_if<std::string>(&result)) FAIL(*why);
    return std::get<OutputPlan>(result);
}

std::string refused(const OutputOptions& options) {
    auto result = parse_output_options(options);
    REQUIRE(std::holds_alternative<std::string>(result));
    return std::get<std::string>(result);
}

// For local ranks 0 to 2: what -r TEXT chooses, one digit each.
std::string choice(const std::string& text) {
    OutputOptions options;
    options.redirects = text;
    const StreamChoice redirects = parsed(options).redirects;
    std::string digits;
    for (int rank = 0; rank < 3; ++rank) {
        const int value = (redirects.has(rank, OutputStream::out) ? 1 : 0) +
                          (redirects.has(rank, OutputStream::err) ? 2 : 0);
        digits += static_cast<char>('0' + value);
    }
    return digits;
}

// "console", "file", "both" or "nowhere", and the prefix of rank 5 on node n1.
std::string way(const OutputPlan& plan, int local_rank, OutputStream stream) {
    const StreamPlan place = plan.stream(local_rank, 5, stream);
    const std::string where = place.to_console ? place.to_file ? "both" : "console"
                              : place.to_file  ? "file"
                                               : "nowhere";
    const std::string prefix =
        place.prefix.with({"n1", "default", std::string(stream_name(stream)), 5, local_rank}).render("NOW");
    return where + " '" + prefix + "'";
}

}  // namespace

TEST_CASE("-r and -t: one value for all, or values for named local ranks and 0 for the others") {
    CHECK(choice("") == "000");
    CHECK(choice("0") == "000");
    CHECK(choice("1") == "111");
    CHECK(choice("2") == "222");
    CHECK(choice("3") == "333");
    CHECK(choice("1:3") == "030");
    CHECK(choice("0:1,2:2") == "102");
    CHECK(choice("0:1,0:2") == "200");
    CHECK(choice("01:3,77:1") == "030");
}

TEST_CASE("local ranks of more than one digit can be named") {
    OutputOptions options;
    options.tee = "9:1,10:3,128:2";
    const OutputPlan plan = parsed(options);
    CHECK(plan.tee.has(10, OutputStream::out));
    CHECK(plan.tee.has(10, OutputStream::err));
    CHECK(plan.tee.has(128, OutputStream::err));
    CHECK_FALSE(plan.tee.has(1, OutputStream::out));
    CHECK_FALSE(plan.tee.has(12, OutputStream::out));
}

TEST_CASE("anything else is refused with the flag, the value and both forms") {
    const std::string text =
        GENERATE("4", "-1", "12", "x", " 1", "1,2", "0:4", "0:", ":1", "0:1,", ",0:1", "0:12", "a:1", "-1:1",
                 "+1:1", "0:1;1:2", "0:1, 1:2", "3,0:1", "99999999999999:1");
    OutputOptions options;
    options.redirects = text;
    const std::string why = refused(options);
    CAPTURE(why);
    CHECK(why.find("--redirects '" + text + "': ") == 0);
    CHECK(why.find("0 none, 1 stdout, 2 stderr or 3 both") != std::string::npos);
    CHECK(why.find("by local rank, like 0:3,1:1") != std::string::npos);
    CHECK(why.find('\n') == std::string::npos);
    options.redirects.clear();
    options.tee = text;
    CHECK(refused(options).find("--tee '" + text + "': ") == 0);
}

TEST_CASE("where streams go") {
    struct Row {
        const char* redirects;
        const char* tee;
        const char* out;
        const char* err;
    };
    const Row row = GENERATE(values<Row>({
        {"", "", "console ''", "console ''"},
        {"3", "", "file ''", "file ''"},
        {"1", "", "file ''", "console ''"},
        {"", "3", "both '[default1]:'", "both '[default1]:'"},
        {"1", "2", "file ''", "both '[default1]:'"},
        {"3", "1", "both '[default1]:'", "file ''"},
        {"0:3", "2:3", "console ''", "console ''"},
    }));
    OutputOptions options;
    options.redirects = row.redirects;
    options.tee = row.tee;
    CAPTURE(row.redirects, row.tee);
    const OutputPlan plan = parsed(options);
    CHECK(way(plan, 1, OutputStream::out) == row.out);
    CHECK(way(plan, 1, OutputStream::err) == row.err);
}

TEST_CASE("ranks that are not to be shown still have their files") {
    OutputOptions options;
    options.tee = "1";
    SECTION("by local rank") { options.local_ranks_filter = "0,2"; }
    SECTION("by global rank") { options.show = "0,6-15"; }
    SECTION("both must allow it") {
        options.local_ranks_filter = "1";
        options.show = "4";
    }
    const OutputPlan plan = parsed(options);
    CHECK(way(plan, 1, OutputStream::out) == "file '[default1]:'");
    CHECK(way(plan, 1, OutputStream::err) == "nowhere ''");
    OutputOptions wider = options;
    wider.local_ranks_filter = "1";
    wider.show = "0,5-15";
    CHECK(way(parsed(wider), 1, OutputStream::out) == "both '[default1]:'");
}

TEST_CASE("prefixes: none, torchrun's header, its template, our own") {
    OutputOptions options;
    options.tee = "1";
    const auto console = [&options](OutputStream stream) { return way(parsed(options), 1, stream); };
    options.log_line_prefix_template = "[${role_name}${rank}/${hostname}/${unknown}]: ";
    CHECK(console(OutputStream::out) == "both '[default5/n1/${unknown}]: '");
    CHECK(console(OutputStream::err) == "console ''");
    options.prefix = "";
    CHECK(console(OutputStream::out) == "both 'n1:5: '");
    CHECK(console(OutputStream::err) == "console 'n1:5: '");
    options.prefix = "{time} {stream} {role}.{local_rank}> ";
    CHECK(console(OutputStream::err) == "console 'NOW stderr default.1> '");
    options.prefix = "none";
    CHECK(console(OutputStream::out) == "both ''");
    options.prefix = "{rnk}";
    CHECK(refused(options).find("--prefix '{rnk}': '{rnk}' is none of {host}") == 0);
}

TEST_CASE("filters are separated by commas, two commas are one") {
    OutputOptions options;
    options.duplicate_stdout_filters = "loss,,acc, step ,,,x,";
    const OutputPlan plan = parsed(options);
    CHECK(plan.filters(OutputStream::out) == std::vector<std::string>{"loss,acc", " step ,", "x"});
    CHECK(plan.filters(OutputStream::err).empty());
    CHECK(plan.wants_logs());
}

TEST_CASE("sizes of --log-max") {
    struct Row {
        const char* text;
        std::uint64_t size;
    };
    const Row row = GENERATE(values<Row>({{"", 0},
                                          {"4096", 4096},
                                          {"4K", 4096},
                                          {"10m", 10485760},
                                          {"1G", 1073741824},
                                          {"8589934591G", 9223372035781033984U}}));
    OutputOptions options;
    options.log_max = row.text;
    CHECK(parsed(options).log_max == row.size);
}

TEST_CASE("what is no size, or none of use, is refused") {
    const std::string text =
        GENERATE("K", "x", "-4K", "4KB", "1.5G", " 4K", "4095", "0", "8589934592G", "1T");
    OutputOptions options;
    options.log_max = text;
    CHECK(refused(options).find("--log-max '" + text + "': ") == 0);
}

TEST_CASE("ranks that are none are refused with their flag") {
    OutputOptions options;
    options.local_ranks_filter = "0,x";
    CHECK(refused(options).find("--local-ranks-filter '0,x': ") == 0);
    options.local_ranks_filter.clear();
    options.show = "8-";
    CHECK(refused(options).find("--show '8-': ") == 0);
}

TEST_CASE("/dev/null: what is redirected is thrown away, what is tee'd is only shown") {
    OutputOptions options;
    options.redirects = "1";
    options.tee = "2";
    options.log_dir = "/dev/null";
    const OutputPlan plan = parsed(options);
    CHECK(way(plan, 0, OutputStream::out) == "nowhere ''");
    CHECK(way(plan, 0, OutputStream::err) == "console '[default0]:'");
    CHECK_FALSE(plan.wants_logs());
    options.log_dir = "logs";
    CHECK(parsed(options).wants_logs());
    CHECK(parsed(options).log_dir == "logs");
    options.redirects = "0:0";
    options.tee = "0";
    CHECK_FALSE(parsed(options).wants_logs());
}

}  // namespace ddprun
