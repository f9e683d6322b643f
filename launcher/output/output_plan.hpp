// OutputPlan says where each stream of each worker goes, as the flags want it. Pure.
//
// | flag                          | a stream that it names                                              |
// |-------------------------------|---------------------------------------------------------------------|
// | `-r`, `--redirects`           | goes to its file only                                               |
// | `-t`, `--tee`                 | goes to its file, and to the console behind a header                |
// | neither                       | goes to the console as it is                                        |
// | `--local-ranks-filter 0,2`    | other local ranks are kept off the console; files do not change     |
// | `--show 0,8-15`               | the same by global rank                                             |
// | `--prefix[=TEMPLATE]`         | before every line on the console, also in place of the tee header;  |
// |                               | `none` for no prefix anywhere                                       |
// | `--log-line-prefix-template`  | in place of the tee header only                                     |
// | `--duplicate-stdout-filters`  | lines that contain one of these texts are also copied, behind the   |
// | `--duplicate-stderr-filters`  | tee header, to filtered_stdout.log or filtered_stderr.log           |
// | `--log-max SIZE`              | each file keeps its head and its tail, not more than SIZE together  |
// | `--log-dir DIR`               | where files go; /dev/null: there are none (what is redirected is    |
// |                               | then thrown away, and workers get no error file)                    |
//
// The grammar of -r and -t is torchrun's: V, or R:V[,R:V…], with V = 0 none, 1 stdout, 2 stderr, 3 both. R is
// a local rank of any number of digits here; local ranks not named have 0, and the last word on one counts.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "launcher/rank_set.hpp"

namespace ddprun {
inline namespace launch {

// LineOrigin says where a line comes from.
struct LineOrigin {
    std::string host;
    std::string role;
    std::string stream;  // "stdout" or "stderr"
    int rank = 0;
    int local_rank = 0;
};

// LinePrefix is what stands before a worker's line on the console, compiled from a template. Pure values.
//
// Two templates are understood: our own (`--prefix`, `{host}:{rank}: `) and torchrun's
// (`--log-line-prefix-template`, `[${role_name}${rank}]: `, the rules of Python's string.Template with
// safe_substitute).
class LinePrefix {
  public:
    LinePrefix() = default;  // nothing

    // Reads `{host} {rank} {local_rank} {role} {time} {stream}`; `{{` and `}}` are the braces themselves.
    // Else returns what is wrong, in words that go behind the flag and its value.
    static std::variant<LinePrefix, std::string> parse(std::string_view text);

    // Reads `${role_name} ${rank} ${local_rank} ${hostname}`, with or without braces; `$$` is a dollar sign
    // and everything else stays as it is.
    static LinePrefix parse_dollar(std::string_view text);

    // Makes torchrun's header of tee'd lines, without a blank behind it: `[<role><local_rank>]:`.
    static LinePrefix tee_header();

    bool empty() const { return pieces_.empty(); }
    bool uses_time() const;

    // Fills in everything but the time, so that render() has little to do.
    LinePrefix with(const LineOrigin& origin) const;

    // Makes the text; `time` stands for {time}. Fields that with() has not filled in are empty.
    std::string render(std::string_view time) const;

    bool operator==(const LinePrefix&) const = default;

  private:
    enum class Field { literal, host, rank, local_rank, role, time, stream };
    struct Piece {
        Field field = Field::literal;
        std::string text;
        bool operator==(const Piece&) const = default;
    };

    enum class Grammar { ours, torchruns };

    static std::optional<Field> field_named(std::string_view name, Grammar grammar);
    static std::string value(const Piece& piece, const LineOrigin& origin);
    void add_text(std::string_view text);
    void add_field(Field field) { pieces_.push_back({field, ""}); }

    std::vector<Piece> pieces_;
};

enum class OutputStream { out, err };

// Returns "stdout" or "stderr".
std::string_view stream_name(OutputStream stream);

// OutputOptions is what the command line collects, as it was written. Empty texts: the flag was not given.
struct OutputOptions {
    std::string redirects;
    std::string tee;
    std::string local_ranks_filter;
    std::string show;
    std::string duplicate_stdout_filters;
    std::string duplicate_stderr_filters;
    std::string log_line_prefix_template;
    std::optional<std::string> prefix;  // --prefix without a template: an empty text
    std::string log_max;
    std::string log_dir;
};

// kDefaultPrefix: what `--prefix` alone stands for.
inline constexpr std::string_view kDefaultPrefix = "{host}:{rank}: ";

// kMinLogMax: the smallest --log-max. Below it neither head nor tail holds anything of use.
inline constexpr std::uint64_t kMinLogMax = 4096;

// StreamChoice is the choice of -r or -t: for each local rank the sum of 1 for stdout and 2 for stderr.
struct StreamChoice {
    int everywhere = 0;
    std::map<int, int> by_local_rank;  // unless empty, ranks not in it have 0

    bool has(int local_rank, OutputStream stream) const;
    bool any() const;
    // Returns the last entry, as text, with a local rank that `count` workers do not have.
    std::optional<std::string> beyond(int count) const;
};

// StreamPlan says where one stream of one worker goes.
struct StreamPlan {
    bool to_console = true;
    bool to_file = false;
    LinePrefix prefix;  // on the console
};

struct OutputPlan {
    StreamChoice redirects;
    StreamChoice tee;
    RankSet local_ranks_shown = RankSet::all();
    RankSet ranks_shown = RankSet::all();
    std::vector<std::string> out_filters;
    std::vector<std::string> err_filters;
    LinePrefix tee_header = LinePrefix::tee_header();
    std::optional<LinePrefix> prefix;  // of --prefix
    std::uint64_t log_max = 0;         // bytes of one file; 0: no limit
    std::string log_dir;               // empty: a new folder among the temporary files
    bool files = true;                 // false for --log-dir /dev/null

    StreamPlan stream(int local_rank, int rank, OutputStream stream) const;

    // Returns true if some file besides error files is to be written.
    bool wants_logs() const;

    const std::vector<std::string>& filters(OutputStream stream) const {
        return stream == OutputStream::out ? out_filters : err_filters;
    }
};

// Reads a number of bytes, perhaps with K, M or G behind it (powers of 1024); nothing for another text.
std::optional<std::uint64_t> parse_size(std::string_view text);

// Makes the plan, or one line that names the flag, its value and the form that the value must have.
std::variant<OutputPlan, std::string> parse_output_options(const OutputOptions& options);

}  // namespace launch
}  // namespace ddprun
