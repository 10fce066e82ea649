#!/usr/bin/env bash
# Books of one ITCH day: Tidewire and CppTrader in turn, processor time of the thread, on core 0.
# Needs g++ 12, git and a release build of tidewire and tidewire-bench.
#
#   bench/rivals/cpptrader/measure.sh [MESSAGES] [SYMBOLS] [PAIRS]
#
# CppTrader's program for optimised books never stores an added order's price, so that all orders
# of a side rest at one price. It is measured as it is and with that line added.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../../.."
messages=${1:-4M} symbols=${2:-8000} pairs=${3:-5}
work=${CARGO_TARGET_DIR:-target}/rivals/cpptrader
trader=https://github.com/chronoxor/CppTrader.git
common=https://github.com/chronoxor/CppCommon.git
mkdir -p "$work"
[ -d "$work/trader" ] || git clone --quiet --depth 1 "${CPPTRADER:-$trader}" "$work/trader"
[ -d "$work/common" ] || git clone --quiet --depth 1 "${CPPCOMMON:-$common}" "$work/common"

# Their books and handler, without their reading of files, which needs more libraries.
build() {
    local name=$1 source=$2 market=$3 script=${4:-}
    local file=$work/trader/performance/$source.cpp
    sed -e '/^int main(/,$d' -e '/#include "\(benchmark\|filesystem\|system\|time\)\//d' \
        -e 's/#include <OptionParser.h>/#include <cstring>\n#include <iostream>/' \
        -e 's/300000000/20000000/' -e "$script" "$file" >"$work/$name.cpp"
    cat "$here/day.inc" >>"$work/$name.cpp"
    g++ -std=c++20 -O3 -march=native -w "-DMARKET=$market" -include cstring -include string \
        -I"$work/trader/include" -I"$work/common/include" "$work/$name.cpp" \
        "$work/trader/source/trader/providers/nasdaq/itch_handler.cpp" -o "$work/$name"
}
plain='MarketManagerOptimized market'
handled="MarketHandler handler; $plain(handler)"
build optimised market_manager_optimized "$handled"
build corrected market_manager_optimized "$handled" \
    '/order_ptr->Side = side;/a order_ptr->Price = price;'
build aggressive market_manager_optimized_aggressive "$plain"

rm -f "$work/day.itch"
target/release/tidewire itch generate "$work/day.itch" --messages "$messages" \
    --symbols "$symbols" --depth 200 --seed 1
for ((pair = 0; pair < pairs; pair++)); do
    target/release/tidewire-bench itch --pin --itch "$work/day.itch"
    for name in corrected aggressive optimised; do
        taskset -c 0 "$work/$name" "$work/day.itch" $name
    done
done
